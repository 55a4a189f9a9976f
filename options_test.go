package brock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock/vfs"
)

func TestOptionsNameTheWrongField(t *testing.T) {
	for field, o := range map[string]Options{
		"Dir":                                {},
		"Dir ":                               {Dir: "x", InMemory: true},
		"ValueDir":                           {ValueDir: "x", InMemory: true},
		"FS":                                 {FS: vfs.NewMem(), InMemory: true},
		"MustExist":                          {InMemory: true, MustExist: true},
		"Mode":                               {Dir: "x", Mode: 9},
		"Mode ":                              {InMemory: true, Mode: ReadOnly},
		"MustBeNew":                          {Dir: "x", MustBeNew: true, MustExist: true},
		"MustBeNew ":                         {Dir: "x", MustBeNew: true, Mode: ReadOnly},
		"LockWait":                           {Dir: "x", LockWait: -1},
		"Durability":                         {Dir: "x", Durability: 9},
		"MemoryLimit":                        {Dir: "x", MemoryLimit: 1},
		"MemoryLimit ":                       {Dir: "x", MemoryLimit: -1},
		"KeyspaceDefaults.TTL":               {Dir: "x", KeyspaceDefaults: KeyspaceOptions{TTL: -1}},
		"KeyspaceDefaults.TTL ":              {Dir: "x", KeyspaceDefaults: KeyspaceOptions{TTL: time.Microsecond}},
		"KeyspaceDefaults.Versions.Versions": {Dir: "x", KeyspaceDefaults: KeyspaceOptions{Versions: Retention{Versions: -1}}},
		"KeyspaceDefaults.Versions.Age":      {Dir: "x", KeyspaceDefaults: KeyspaceOptions{Versions: Retention{Age: -1}}},
		"Tuning.MemtableSize":                {Dir: "x", Tuning: Tuning{MemtableSize: 1}},
		"Tuning.MemtableSize ":               {Dir: "x", Tuning: Tuning{MemtableSize: 1 << 40}},
		"Tuning.SegmentSize":                 {Dir: "x", Tuning: Tuning{SegmentSize: 1}},
		"Tuning.RunFileSize":                 {Dir: "x", Tuning: Tuning{RunFileSize: 1 << 40}},
	} {
		o = o.withDefaults()
		err := o.validate()
		var oe *OptionError
		if !errors.As(err, &oe) || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v", field, err)
			continue
		}
		wantEqual(t, "field", oe.Field, strings.TrimSpace(field))
	}
}

func TestDefaultOptions(t *testing.T) {
	o := DefaultOptions("dir")
	must(t, o.validate())
	wantEqual(t, "Dir", o.Dir, "dir")
	wantEqual(t, "Durability", o.Durability, Synced)
	if o.MemoryLimit == 0 || o.Tuning.MemtableSize == 0 || o.KeyspaceDefaults.ValueThreshold == 0 {
		t.Errorf("defaults are missing: %+v", o)
	}
	again := o.withDefaults()
	wantEqual(t, "defaults of defaults", fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", o))
	db := openTest(t, Options{KeyspaceDefaults: KeyspaceOptions{TTL: time.Hour}})
	wantEqual(t, "DB.Options", db.Options().KeyspaceDefaults.TTL, time.Hour)
	wantErr(t, "TxnOptions", db.ViewContext(t.Context(), TxnOptions{Isolation: 9}, func(*Txn) error { return nil }), ErrInvalid)
	wantErr(t, "TxnOptions", db.UpdateContext(t.Context(), TxnOptions{Durability: 9}, func(*Txn) error { return nil }), ErrInvalid)
	for _, memory := range []int64{-1, maxTxnMemory + 1} {
		wantErr(t, "TxnOptions", db.UpdateContext(t.Context(), TxnOptions{MaxMemory: memory}, func(*Txn) error { return nil }), ErrInvalid)
	}
}

func TestMetricsString(t *testing.T) {
	db := openTest(t, Options{})
	set(t, db, "a=1", "b=2")
	must(t, db.View(func(txn *Txn) error {
		for range 1000 {
			get(txn, "a")
		}
		show(txn.All())
		return nil
	}))
	m := db.Metrics()
	wantEqual(t, "reads", m.Reads, 1000)
	wantEqual(t, "iterators", m.Iterators, 1)
	wantEqual(t, "commits", m.Commits, 1)
	wantEqual(t, "entries", m.Entries, 2)
	wantEqual(t, "bytes", m.Bytes, 64)
	if m.ReadLatency.Count < 3 || m.CommitLatency.Count != 1 {
		t.Errorf("latencies: %v, %v", m.ReadLatency, m.CommitLatency)
	}
	for _, want := range []string{"reads       1000", "commits     1 with 2 entries, 64 B", "amplified"} {
		if !strings.Contains(m.String(), want) {
			t.Errorf("%q is not in\n%v", want, m)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	for i := range 100 {
		h.observe(time.Duration(i) * time.Microsecond)
	}
	h.observe(-1)
	s := h.snapshot()
	wantEqual(t, "count", s.Count, 101)
	wantEqual(t, "sum", s.Sum, 4950*time.Microsecond)
	wantEqual(t, "p50", s.Quantile(0.5), 65536*time.Nanosecond)
	wantEqual(t, "all", s.Quantile(1), 131072*time.Nanosecond)
	wantEqual(t, "none", Histogram{}.String(), "none measured")
}

// On real data, in memory and in runs, estimates are right within a tenth, and
// parts differ by a factor of two at most.
func TestEstimatesOfRealData(t *testing.T) {
	const n, size = 20_000, 120
	db := openTest(t, Options{Durability: Buffered, KeyspaceDefaults: KeyspaceOptions{ValueThreshold: 100}})
	key := func(i int) []byte { return fmt.Appendf(nil, "%08d", i) }
	for at := 0; at < n; at += 1000 {
		must(t, db.Update(func(txn *Txn) error {
			for j := range 1000 {
				i := (at + j) * 7919 % n
				if err := txn.Set(key(i), make([]byte, size*(i%2))); err != nil {
					return err
				}
			}
			return nil
		}))
		if at == n/2 {
			must(t, db.Flush(t.Context()))
		}
	}
	near := func(what string, got, want, slack int64) {
		t.Helper()
		if got < want-slack || got > want+slack {
			t.Errorf("%s: %d, want about %d", what, got, want)
		}
	}
	check := func() {
		t.Helper()
		for _, r := range [][2]int{{0, n}, {n / 4, n / 2}, {n / 3, n/3 + n/10}} {
			count := int64(r[1] - r[0])
			entries, bytes := db.EstimateSize(key(r[0]), key(r[1]))
			near(fmt.Sprintf("entries in %v", r), entries, count, n/100+count/10)
			want := count * (9 + size/2)
			near(fmt.Sprintf("bytes in %v", r), bytes, want, n/100*(9+size/2)+want/4)
		}
		for _, parts := range []int{2, 5, 16} {
			cuts := db.Split(key(n/10), key(n), parts)
			wantEqual(t, "cuts", len(cuts), parts-1)
			last, least, most := n/10, n, 0
			for _, cut := range append(cuts, key(n)) {
				var at int
				if _, err := fmt.Sscanf(string(cut), "%d", &at); err != nil {
					t.Fatal(err)
				}
				least, most, last = min(least, at-last), max(most, at-last), at
			}
			if most > 2*least {
				t.Errorf("%d parts are of %d to %d keys", parts, least, most)
			}
		}
	}
	check()
	must(t, db.Compact(t.Context()))
	check()
}

func TestEstimateAndSplit(t *testing.T) {
	db := openTest(t, Options{KeyspaceDefaults: KeyspaceOptions{ValueThreshold: 100}})
	for i := range 100 {
		must(t, db.Set(b(fmt.Sprintf("%02d", i)), make([]byte, 50+100*(i%2))))
	}
	n, bytes := db.EstimateSize(nil, nil)
	wantEqual(t, "entries", n, 100)
	wantEqual(t, "bytes", bytes, 100*3+50*50+50*150)
	n, _ = db.EstimateSize(b("10"), b("20"))
	wantEqual(t, "entries in a range", n, 10)
	wantEqual(t, "Split", fmt.Sprintf("%s", db.Split(nil, nil, 4)), "[25 50 75]")
	wantEqual(t, "Split of a range", fmt.Sprintf("%s", db.Split(b("10"), b("20"), 2)), "[15]")
	wantEqual(t, "Split in one", len(db.Split(nil, nil, 1)), 0)
}
