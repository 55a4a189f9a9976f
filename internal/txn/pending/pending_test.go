package pending

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

func testEncoder() *Encoder {
	return &Encoder{Prefix: []byte{0}, Threshold: 64, Seed: 7, CompressAbove: 1, Compression: new(Compression)}
}

// Writes of random keys and ranges are read, walked and committed as a map says.
func TestWritesAgreeWithModel(t *testing.T) {
	c := testEncoder()
	w := Writes{Indexed: true}
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		key := func() string { return fmt.Sprintf("\x00%02d", rng.IntN(40)) }
		model := map[string]string{} // "-" is a delete that a walk shows
		gone := map[string]bool{}    // in a range delete
		for n := range 200 {
			switch k := key(); rng.IntN(12) {
			case 0:
				lo, hi := min(k, "\x0030"), max(k, "\x0030")
				w.DeleteRange([]byte(lo), []byte(hi))
				for i := range 40 {
					if k := fmt.Sprintf("\x00%02d", i); lo <= k && k < hi {
						delete(model, k)
						gone[k] = true
					}
				}
			case 1:
				w.Add(c, &entry.Entry{Key: []byte(k[1:]), Kind: entry.Delete})
				model[k] = "-"
			default:
				v := fmt.Sprint("value ", n) + strings.Repeat("-", rng.IntN(2)*(c.Threshold+n%8)) // some are separated
				w.Add(c, &entry.Entry{Key: []byte(k[1:]), Value: []byte(v), Kind: entry.Set})
				model[k] = v
			}
			if n%50 == 49 {
				compare(t, &w, model, gone)
			}
		}
		comparePayload(t, &w, model)
		w.Reset()
		if w.Indexed || w.Len() != 0 || w.Bytes() != 0 || len(w.RangeDeletes()) > 0 {
			t.Fatal("something is left after Reset")
		}
		w.Indexed = true
	}
}

func show(e *entry.Entry) string {
	if e.Kind == entry.Delete {
		return "-"
	}
	return string(e.Value)
}

func compare(t *testing.T, w *Writes, model map[string]string, gone map[string]bool) {
	t.Helper()
	for i := range 40 {
		k := fmt.Sprintf("\x00%02d", i)
		want, written := model[k]
		if !written && gone[k] {
			want, written = "-", true
		}
		var e entry.Entry
		found, err := w.Get([]byte(k), checksum.HashKey(7, []byte(k)), &e)
		if err != nil || found != written || found && (show(&e) != want || e.Version != rangedel.Pending) {
			t.Errorf("Get %q: %v %q, %v, want %q", k, found, show(&e), err, want)
		}
	}
	keys := slices.Sorted(maps.Keys(model))
	it := w.Iterator()
	defer it.Close()
	i := 0
	for ok := it.First(); ok; ok = it.Next() {
		if e := it.Entry(); i == len(keys) || string(e.Key) != keys[i] || show(e) != model[keys[i]] || e.Version != rangedel.Pending {
			t.Fatalf("entry %d is %q with %q", i, e.Key, show(e))
		}
		i++
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		if i--; i < 0 || string(it.Entry().Key) != keys[i] {
			t.Fatalf("going back, entry %d is %q", i, it.Entry().Key)
		}
	}
	if i != 0 {
		t.Errorf("%d entries were not met going back", i)
	}
	later := fmt.Sprintf("later %03d", w.Len())
	w.Add(testEncoder(), &entry.Entry{Key: []byte(later), Kind: entry.Set})
	if it.SeekGE([]byte("\x00" + later)) {
		t.Error("an iterator shows what was written after it was made")
	}
	model["\x00"+later] = ""
}

// comparePayload checks that a replay of the payload comes to the model.
func comparePayload(t *testing.T, w *Writes, model map[string]string) {
	t.Helper()
	payload, records := w.Payload()
	got := map[string]string{}
	n, size := 0, len(payload)
	for ; len(payload) > 0; n++ {
		r, err := entry.DecodeRecord(payload)
		if err != nil || r.Version != 0 || r.Own && len(payload)%8 != 0 || size%8 != 0 {
			t.Fatalf("record %d: version %d, %d of %d bytes are left, %v", n, r.Version, len(payload), size, err)
		}
		payload = payload[r.Size:]
		switch r.Kind {
		case entry.RangeDelete:
			maps.DeleteFunc(got, func(k, _ string) bool { return k >= string(r.Key) && k < string(r.Value) })
		case entry.Delete:
			got[string(r.Key)] = "-"
		default:
			got[string(r.Key)] = string(r.Value)
		}
	}
	if n != records {
		t.Errorf("%d records, told were %d", n, records)
	}
	if !maps.Equal(got, model) {
		t.Errorf("the payload comes to %q, want %q", got, model)
	}
}

// Without an index a key's records are all kept, in their order.
func TestWithoutIndex(t *testing.T) {
	var w Writes
	for i := range 3 {
		w.Add(testEncoder(), &entry.Entry{Key: []byte("k"), Value: []byte{byte(i)}, Kind: entry.Set})
	}
	payload, n := w.Payload()
	if n != 3 || w.Len() != 3 || int64(len(payload)) != w.Bytes() {
		t.Errorf("%d records of %d bytes, want 3", n, len(payload))
	}
	w.DeleteRange([]byte("\x00a"), []byte("\x00z"))
	if payload, n = w.Payload(); n != 1 || !bytes.Contains(payload, []byte("\x00a")) {
		t.Errorf("%d records are left before a range delete of all", n-1)
	}
}
