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

func TestEstimateAndSplit(t *testing.T) {
	db, _ := openFake(t, Options{KeyspaceDefaults: KeyspaceOptions{ValueThreshold: 100}})
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
