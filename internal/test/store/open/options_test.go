package open

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

func TestOptionsNameTheWrongField(t *testing.T) {
	for field, o := range map[string]brock.Options{
		"Dir":                                {},
		"Dir ":                               {Dir: "x", InMemory: true},
		"ValueDir":                           {ValueDir: "x", InMemory: true},
		"FS":                                 {FS: vfs.NewMem(), InMemory: true},
		"MustExist":                          {InMemory: true, MustExist: true},
		"Mode":                               {Dir: "x", Mode: 9},
		"Mode ":                              {InMemory: true, Mode: brock.ReadOnly},
		"MustBeNew":                          {Dir: "x", MustBeNew: true, MustExist: true},
		"MustBeNew ":                         {Dir: "x", MustBeNew: true, Mode: brock.ReadOnly},
		"LockWait":                           {Dir: "x", LockWait: -1},
		"Durability":                         {Dir: "x", Durability: 9},
		"MemoryLimit":                        {Dir: "x", MemoryLimit: 1},
		"MemoryLimit ":                       {Dir: "x", MemoryLimit: -1},
		"KeyspaceDefaults.TTL":               {Dir: "x", KeyspaceDefaults: brock.KeyspaceOptions{TTL: -1}},
		"KeyspaceDefaults.TTL ":              {Dir: "x", KeyspaceDefaults: brock.KeyspaceOptions{TTL: time.Microsecond}},
		"KeyspaceDefaults.Versions.Versions": {Dir: "x", KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Versions: -1}}},
		"KeyspaceDefaults.Versions.Age":      {Dir: "x", KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: -1}}},
		"Tuning.MemtableSize":                {Dir: "x", Tuning: brock.Tuning{MemtableSize: 1}},
		"Tuning.MemtableSize ":               {Dir: "x", Tuning: brock.Tuning{MemtableSize: 1 << 40}},
		"Tuning.SegmentSize":                 {Dir: "x", Tuning: brock.Tuning{SegmentSize: 1}},
		"Tuning.RunFileSize":                 {Dir: "x", Tuning: brock.Tuning{RunFileSize: 1 << 40}},
	} {
		if o.Dir != "" {
			o.FS = vfs.NewMem()
		}
		_, err := brock.Open(o)
		var oe *brock.OptionError
		if !errors.As(err, &oe) || !errors.Is(err, brock.ErrInvalid) {
			t.Errorf("%s: error %v", field, err)
			continue
		}
		assert.Equal(t, "field", oe.Field, strings.TrimSpace(field))
	}
}

// Sizes follow the MemoryLimit that a program sets after DefaultOptions.
func TestDefaultOptionsFitAnyMemoryLimit(t *testing.T) {
	for _, limit := range []int64{4 << 20, 16 << 20, 1 << 30, 64 << 30} {
		o := brock.DefaultOptions(storetest.Dir)
		o.MemoryLimit, o.FS = limit, vfs.NewMem()
		db := storetest.Open(t, o)
		assert.Equal(t, fmt.Sprintf("size of a memtable at a limit of %d", limit), db.Options().Tuning.MemtableSize, limit/8)
		storetest.Set(t, db, "a=1")
	}
}

func TestDefaultOptions(t *testing.T) {
	o := brock.DefaultOptions("dir")
	assert.Equal(t, "Dir", o.Dir, "dir")
	assert.Equal(t, "Durability", o.Durability, brock.Synced)
	if o.MemoryLimit == 0 || o.Tuning.SegmentSize == 0 || o.KeyspaceDefaults.ValueThreshold == 0 {
		t.Errorf("defaults are missing: %+v", o)
	}
	o.FS = vfs.NewMem()
	db := storetest.Open(t, o)
	o.Tuning.MemtableSize = o.MemoryLimit / 8
	assert.Equal(t, "options in use", fmt.Sprintf("%+v", db.Options()), fmt.Sprintf("%+v", o))
	db = storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{TTL: time.Hour}})
	assert.Equal(t, "DB.Options", db.Options().KeyspaceDefaults.TTL, time.Hour)
	assert.Error(t, "TxnOptions", db.ViewContext(t.Context(), brock.TxnOptions{Isolation: 9}, func(*brock.Txn) error { return nil }), brock.ErrInvalid)
	assert.Error(t, "TxnOptions", db.UpdateContext(t.Context(), brock.TxnOptions{Durability: 9}, func(*brock.Txn) error { return nil }), brock.ErrInvalid)
	for _, memory := range []int64{-1, 1<<30 + 1} {
		assert.Error(t, "TxnOptions", db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: memory}, func(*brock.Txn) error { return nil }), brock.ErrInvalid)
	}
}
