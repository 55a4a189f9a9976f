package trial

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
)

// scanned is the result of the step of scanning.
type scanned struct {
	Prefixes int    `json:"prefixes"`
	Keys     passes `json:"keysOnly"`
	Values   passes `json:"withValues"`
}

// passes sums scans up.
type passes struct {
	Pairs int64         `json:"pairs"`
	Bytes int64         `json:"bytes"`
	Took  time.Duration `json:"nanoseconds"`
}

func (s scanned) String() string {
	return fmt.Sprintf("all, backward, and by %s:%skeys only %s; with values %s, %s",
		human.Things(int64(s.Prefixes), "prefix"), indent, human.Rate(s.Keys.Pairs, "keys", s.Keys.Took), human.Rate(s.Values.Pairs, "pairs", s.Values.Took), human.ByteRate(s.Values.Bytes, s.Values.Took))
}

// scan walks everything, in both directions, and each prefix, with and without
// values.
func (t *trial) scan() (fmt.Stringer, error) {
	var s scanned
	work := t.Progress.Start("scan", 2*t.bytes)
	defer work.End()
	one := func(o brock.IteratorOptions, want []record) error {
		p := &s.Values
		if o.KeysOnly {
			p = &s.Keys
		}
		begin := time.Now()
		n, err := t.walk(o, want)
		p.Took += time.Since(begin)
		p.Pairs += int64(len(want))
		p.Bytes += n
		if !o.KeysOnly {
			work.Add(n)
		}
		return err
	}
	for _, o := range []brock.IteratorOptions{{KeysOnly: true}, {KeysOnly: true, Reverse: true}, {Prefetch: 64}} {
		if err := one(o, t.records); err != nil {
			return nil, err
		}
	}
	for prefix, want := range byPrefix(t.records) {
		s.Prefixes++
		for _, keysOnly := range []bool{true, false} {
			if err := one(brock.IteratorOptions{Prefix: prefix, KeysOnly: keysOnly}, want); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// walk compares what an iterator shows with the records that are expected, keys
// of the trial's own left out, and counts the bytes it saw.
func (t *trial) walk(o brock.IteratorOptions, want []record) (seen int64, err error) {
	err = t.db.ViewContext(t.ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		i := 0
		for item, err := range txn.Items(o) {
			if err != nil {
				return err
			}
			if strings.HasPrefix(string(item.Key()), reserved) {
				continue
			}
			if i == len(want) {
				return wrong("a scan shows %q, which was never written", item.Key())
			}
			r := &want[i]
			if o.Reverse {
				r = &want[len(want)-1-i]
			}
			if err := t.matches(item, r, o.KeysOnly); err != nil {
				return err
			}
			seen += int64(len(r.key) + r.size)
			i++
		}
		if i < len(want) {
			return wrong("a scan shows %d pairs of %d", i, len(want))
		}
		return nil
	})
	return seen, err
}

func (t *trial) matches(item *brock.Item, r *record, keyOnly bool) error {
	if !bytes.Equal(item.Key(), r.key) || item.ValueSize() != int64(r.size) {
		return wrong("a scan shows %q with %d bytes, want %q with %d", item.Key(), item.ValueSize(), r.key, r.size)
	}
	if keyOnly {
		return nil
	}
	value, err := item.Value()
	if err == nil && maphash.Bytes(t.hash, value) != r.hash {
		err = wrong("a scan shows another value for %q", r.key)
	}
	return err
}

// maxPrefixes bounds the scans of a source with very many.
const maxPrefixes = 500

// byPrefix walks prefixes and the records that have them: the first directory of
// each key or, where there is none, its first byte.
func byPrefix(records []record) iter.Seq2[[]byte, []record] {
	return func(yield func([]byte, []record) bool) {
		seen := make(map[string]bool)
		for i := range records {
			key := records[i].key
			prefix := key[:max(bytes.IndexByte(key, '/')+1, 1)]
			if seen[string(prefix)] || len(seen) == maxPrefixes {
				continue
			}
			seen[string(prefix)] = true
			if !yield(prefix, withPrefix(records, prefix)) {
				return
			}
		}
	}
}

// withPrefix returns the part of the sorted records with a prefix.
func withPrefix(records []record, prefix []byte) []record {
	begin, _ := slices.BinarySearchFunc(records, prefix, func(r record, p []byte) int { return bytes.Compare(r.key, p) })
	records = records[begin:]
	n := slices.IndexFunc(records, func(r record) bool { return !bytes.HasPrefix(r.key, prefix) })
	if n < 0 {
		return records
	}
	return records[:n]
}
