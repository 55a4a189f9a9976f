package txn

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestGivenVersionsMisused: what is refused says why, and changes nothing.
func TestGivenVersionsMisused(t *testing.T) {
	o := brock.Options{Dir: "db", FS: vfs.NewMem()}
	db := assert.Must(brock.Open(o))
	storetest.Set(t, db, "a=1", "b=1")
	storetest.Set(t, db, "a=2")
	set := func(o brock.TxnOptions) error {
		return db.UpdateContext(t.Context(), o, func(txn *brock.Txn) error { return txn.Set([]byte("x"), nil) })
	}
	at := func(versions ...uint64) error {
		b := db.NewBatch()
		for _, v := range versions {
			if err := b.At(v); err != nil {
				return err
			}
			assert.OK(t, b.Set([]byte("x"), nil))
		}
		_, err := b.Commit(t.Context(), brock.Synced)
		return err
	}
	late := db.NewBatch()
	assert.OK(t, late.Set([]byte("x"), nil))
	mine := assert.Must(db.Keyspace("mine"))
	manual := assert.Must(db.Keyspace("manual", brock.KeyspaceOptions{Versions: brock.Retention{Manual: true}}))
	newest := db.Version()
	for _, c := range []struct {
		what string
		got  error
		want error
	}{
		{"CommitAt the newest", set(brock.TxnOptions{CommitAt: newest}), brock.ErrVersionMismatch},
		{"CommitAt below", set(brock.TxnOptions{CommitAt: 1}), brock.ErrVersionMismatch},
		{"CommitAt is no conflict that a run helps", set(brock.TxnOptions{CommitAt: 1, Retries: 3}), brock.ErrConflict},
		{"CommitAt too large", set(brock.TxnOptions{CommitAt: brock.MaxCommitAt + 1}), brock.ErrInvalid},
		{"CommitAt of all bits", set(brock.TxnOptions{CommitAt: math.MaxUint64}), brock.ErrInvalid},
		{"CommitAt to read", db.ViewContext(t.Context(), brock.TxnOptions{CommitAt: 100}, func(*brock.Txn) error { return nil }), brock.ErrInvalid},
		{"At 0", at(0), brock.ErrInvalid},
		{"At the newest", at(newest), brock.ErrVersionMismatch},
		{"At below and above", at(1, 100), brock.ErrVersionMismatch},
		{"At twice", at(100, 100), brock.ErrInvalid},
		{"At falls", at(100, 99), brock.ErrInvalid},
		{"At too large", at(brock.MaxCommitAt + 1), brock.ErrInvalid},
		{"At after writes", late.At(100), brock.ErrInvalid},
		{"Advance to 0", db.AdvanceVersion(t.Context(), 0), brock.ErrVersionMismatch},
		{"Advance to the newest", db.AdvanceVersion(t.Context(), newest), brock.ErrVersionMismatch},
		{"Advance too far", db.AdvanceVersion(t.Context(), brock.MaxCommitAt+1), brock.ErrInvalid},
		{"Discard in the default keyspace", db.Default().SetDiscardVersion(1), brock.ErrInvalid},
		{"Discard without Manual", mine.SetDiscardVersion(1), brock.ErrInvalid},
		{"Discard beyond the newest", manual.SetDiscardVersion(newest + 1), brock.ErrInvalid},
		{"Discard nothing", manual.SetDiscardVersion(0), nil},
		{"Manual and Age", assert.Must(db.Keyspace("manual")).SetOptions(brock.KeyspaceOptions{Versions: brock.Retention{Manual: true, Age: 1}}), brock.ErrInvalid},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	assert.Equal(t, "version", db.Version(), newest)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.Equal(t, "x", storetest.Get(txn, "x"), "-")
		return nil
	}))
	// The store is as good as before; a fault of At changes nothing in the batch.
	b := db.NewBatch()
	assert.OK(t, b.At(newest+10))
	assert.OK(t, b.Set([]byte("x"), []byte("1")))
	assert.Error(t, "At", b.At(newest+10), brock.ErrInvalid)
	assert.Equal(t, "version", assert.Must(b.Commit(t.Context(), brock.Synced)), newest+10)
	assert.OK(t, set(brock.TxnOptions{CommitAt: newest + 11}))
	assert.OK(t, set(brock.TxnOptions{}))
	assert.OK(t, db.AdvanceVersion(t.Context(), brock.MaxCommitAt))
	assert.OK(t, set(brock.TxnOptions{}))
	assert.Equal(t, "version", db.Version(), brock.MaxCommitAt+1)
	assert.OK(t, manual.Drop(t.Context()))
	assert.Error(t, "a dropped keyspace", manual.SetDiscardVersion(1), brock.ErrKeyspaceNotFound)
	assert.OK(t, db.Close())
	closed := db.NewBatch()
	for _, err := range []error{db.AdvanceVersion(t.Context(), brock.MaxCommitAt), db.Default().SetDiscardVersion(1), mine.SetDiscardVersion(1), closed.At(5), new(brock.Batch).At(5)} {
		assert.Error(t, "closed", err, brock.ErrClosed)
	}
	o.Mode = brock.ReadOnly
	db = assert.Must(brock.Open(o))
	assert.Equal(t, "version", db.Version(), brock.MaxCommitAt+2) // with the drop
	for _, err := range []error{db.AdvanceVersion(t.Context(), brock.MaxCommitAt), db.Default().SetDiscardVersion(1), db.NewBatch().At(5)} {
		assert.Error(t, "read-only", err, brock.ErrReadOnly)
	}
	assert.OK(t, db.Close())
}

// TestBatchVersionsLimit: a batch of several versions has its bounds, and says so before it has
// changed; one of one version may go to files.
func TestBatchVersionsLimit(t *testing.T) {
	db := storetest.Open(t, brock.Options{MemoryLimit: 4 << 20, KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Manual: true}}})
	b := db.NewBatch()
	value := bytes.Repeat([]byte("v"), 10_000)
	assert.OK(t, b.At(10))
	assert.OK(t, b.Set([]byte("small"), nil))
	assert.OK(t, b.At(20))
	fits := 0
	for ; ; fits++ {
		err := b.Set(fmt.Appendf(nil, "key %d", fits), value)
		if err != nil {
			assert.Error(t, "too large", err, brock.ErrInvalid)
			break
		}
	}
	assert.Error(t, "too large", b.Set([]byte("large"), make([]byte, 2<<20)), brock.ErrInvalid)
	assert.Equal(t, "writes", b.Len(), fits+1)
	assert.Equal(t, "version", assert.Must(b.Commit(t.Context(), brock.Synced)), 20)
	b.Reset()
	assert.OK(t, b.At(30))
	for i := range 4 * fits {
		assert.OK(t, b.Set(fmt.Appendf(nil, "key %d", i), value))
	}
	assert.Error(t, "in files already", b.At(31), brock.ErrInvalid)
	assert.Equal(t, "version", assert.Must(b.Commit(t.Context(), brock.Synced)), 30)
	for at, want := range map[uint64]int{10: 1, 20: 1 + fits, 29: 1 + fits, 30: 1 + 4*fits} {
		assert.OK(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
			n := 0
			for _, err := range txn.All() {
				assert.OK(t, err)
				n++
			}
			assert.Equal(t, fmt.Sprint("keys at ", at), n, want)
			return nil
		}))
	}
	// As many versions as a frame has.
	db = storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Manual: true}}})
	b = db.NewBatch()
	for i := range brock.MaxBatchVersions {
		assert.OK(t, b.At(uint64(100+2*i)))
		assert.OK(t, b.Set([]byte("k"), nil))
	}
	last := uint64(100 + 2*(brock.MaxBatchVersions-1))
	assert.Error(t, "one too many", b.At(last+2), brock.ErrInvalid)
	assert.Equal(t, "version", assert.Must(b.Commit(t.Context(), brock.Synced)), last)
	assert.OK(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: 60_001}, func(txn *brock.Txn) error {
		assert.Equal(t, "version", assert.Must(txn.Get([]byte("k"))).Version(), 60_000)
		return nil
	}))
}

// TestBatchVersionsAreAtomic cuts the power at each step of the commit of three versions.
func TestBatchVersionsAreAtomic(t *testing.T) {
	rnd := draw.Rand(t)
	mem, keys := vfs.NewMem(), storetest.DrawKeys(t)
	var images []*vfs.Mem
	var taking atomic.Bool
	fs := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		if taking.Load() && op.Kind&(faultfs.Changes|faultfs.Syncs) != 0 {
			for _, mode := range []vfs.CrashMode{vfs.Lost, vfs.Prefix, vfs.Prefix, vfs.Chaos, vfs.Chaos, vfs.Chaos} {
				images = append(images, mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: rnd.Uint64()}))
			}
		}
	}})
	o := brock.Options{Dir: "db", FS: fs, Keys: keys, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	o.KeyspaceDefaults.Versions.Manual = true
	db := assert.Must(brock.Open(o))
	value := func(v int) []byte { return bytes.Repeat([]byte{'0' + byte(v)}, 6000) }
	assert.OK(t, db.Set([]byte("k"), value(0)))
	before := db.Version()
	b := db.NewBatch()
	for i := 1; i <= 3; i++ {
		assert.OK(t, b.At(uint64(1000*i)))
		assert.OK(t, b.Set([]byte("k"), value(i)))
		assert.OK(t, b.Set(fmt.Appendf(nil, "small %d", i), []byte("x")))
	}
	taking.Store(true)
	assert.Must(b.Commit(t.Context(), brock.Synced))
	taking.Store(false)
	images = append(images, mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost}))
	assert.OK(t, db.Close())
	all, none := 0, 0
	for i, image := range images {
		o.FS = image
		db := assert.Must(brock.Open(o))
		newest := db.Version()
		if newest != before && newest != 3000 {
			t.Fatalf("image %d: version %d", i, newest)
		}
		for _, at := range []uint64{before, 1000, 2500, 3000} {
			if at > newest {
				continue
			}
			assert.OK(t, db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
				n := int(at / 1000)
				assert.Equal(t, "value", storetest.Get(txn, "k"), string(value(n)))
				assert.Equal(t, "keys", strings.Count(storetest.ShowItems(txn.All()), "small"), n)
				return nil
			}))
		}
		if newest == before {
			none++
			assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{CommitAt: 1000}, func(txn *brock.Txn) error { return txn.Set([]byte("k"), nil) }))
		} else {
			all++
		}
		assert.OK(t, db.Close())
	}
	t.Logf("%d images with all, %d with none", all, none)
	if all < 1 || none < 2 {
		t.Errorf("%d images with all, %d with none", all, none)
	}
}

// TestDiscardReadsNothing: the call writes an edit, and reads no key; a compaction then frees what is
// below, and keeps what can be read.
func TestDiscardReadsNothing(t *testing.T) {
	for _, name := range []string{"", "mine"} {
		t.Run(name, func(t *testing.T) { testDiscardReadsNothing(t, name) })
	}
}

func testDiscardReadsNothing(t *testing.T, name string) {
	mem := vfs.NewMem()
	var read, wrote atomic.Int64
	var counting atomic.Bool
	gate := make(chan struct{})
	fs := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		if !counting.Load() {
			return
		}
		if strings.Contains(op.Path, "MANIFEST") || strings.Contains(op.Path, "SUPER") {
			if op.Kind == faultfs.Read {
				read.Add(op.Len)
			} else if op.Kind == faultfs.Write {
				wrote.Add(op.Len)
			}
			return
		}
		<-gate // whoever else reads waits until the call has returned
	}})
	// Encrypted runs are not mapped, so each read is an operation.
	o := brock.Options{Dir: "db", FS: fs, Keys: storetest.MasterKey(1), Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	if name == "" {
		o.KeyspaceDefaults.Versions.Manual = true
	}
	db := assert.Must(brock.Open(o))
	ks := (*brock.Keyspace)(nil)
	if name != "" {
		ks = assert.Must(db.Keyspace(name, brock.KeyspaceOptions{Versions: brock.Retention{Manual: true}}))
	}
	const keys, versions = 300, 60
	for v := range versions {
		b := db.NewBatch().In(ks)
		assert.OK(t, b.At(uint64(100+10*v)))
		for k := range keys {
			assert.OK(t, b.Set(fmt.Appendf(nil, "key %03d", k), storetest.RandomBytes(v*keys+k, 100)))
		}
		assert.Must(b.Commit(t.Context(), brock.Buffered))
	}
	assert.OK(t, db.Compact(t.Context()))
	before := mem.Used()
	const discard = 100 + 10*(versions-6) + 5 // between two versions
	set := cmp.Or(ks, db.Default()).SetDiscardVersion
	counting.Store(true)
	assert.OK(t, set(discard))
	counting.Store(false)
	close(gate)
	t.Logf("%d bytes read, %d written, of %d in files", read.Load(), wrote.Load(), before)
	if read.Load() > 0 || wrote.Load() > 16<<10 {
		t.Errorf("%d bytes read, %d written", read.Load(), wrote.Load())
	}
	assert.OK(t, set(discard-100)) // no error, and no effect
	check := func(what string) {
		t.Helper()
		for at := uint64(100); at <= db.Version(); at++ {
			err := db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: at}, func(txn *brock.Txn) error {
				item, err := txn.In(ks).Get([]byte("key 007"))
				if err == nil {
					assert.Equal(t, what, item.Version(), at/10*10)
				}
				return err
			})
			if want := at < discard; errors.Is(err, brock.ErrVersionGone) != want || err != nil && !want {
				t.Fatalf("%s: at version %d: %v", what, at, err)
			}
		}
	}
	check("after the call")
	assert.OK(t, db.Compact(t.Context()))
	check("compacted")
	if after := mem.Used(); after > before/4 {
		t.Errorf("%d bytes of %d are left", after, before)
	}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		n := 0
		for item, err := range txn.In(ks).Items(brock.IteratorOptions{AllVersions: true}) {
			assert.OK(t, err)
			if n++; item.Version() < discard/10*10 {
				t.Fatalf("%s has version %d", item.Key(), item.Version())
			}
		}
		assert.Equal(t, "versions", n, 6*keys)
		return nil
	}))
	assert.OK(t, db.Close())
	db = assert.Must(brock.Open(o))
	if ks != nil {
		ks = assert.Must(db.Keyspace(name))
		assert.Equal(t, "Manual", ks.Options().Versions.Manual, true)
	}
	check("reopened")
	assert.OK(t, db.Compact(t.Context()))
	check("reopened and compacted")
	assert.OK(t, db.Close())
}

// TestLogIsAppliedAgain: a Buffered store applies a log, each entry under its number as version. Whenever
// the power fails, the newest version is that of the last entry left, and the log can be applied from
// there on, with the same versions.
func TestLogIsAppliedAgain(t *testing.T) {
	r := draw.Rand(t)
	mem := vfs.NewMem()
	o := brock.Options{Dir: "db", FS: mem, Durability: brock.Buffered, Keys: storetest.DrawKeys(t), Tuning: brock.Tuning{MemtableSize: 64 << 10}}
	o.KeyspaceDefaults.Versions.Manual = true
	apply := func(db *brock.DB, n uint64) {
		t.Helper()
		b := db.NewBatch()
		assert.OK(t, b.At(n))
		assert.OK(t, b.Set(fmt.Appendf(nil, "key %02d", n%50), storetest.RandomBytes(int(n), int(n*7%3000))))
		assert.OK(t, b.Set([]byte("applied"), fmt.Append(nil, n)))
		assert.Must(b.Commit(t.Context(), brock.DefaultDurability))
	}
	db := assert.Must(brock.Open(o))
	taken := 0
	for n := uint64(1); n <= 600; n++ {
		apply(db, n)
		switch r.IntN(30) {
		case 0:
			assert.OK(t, db.Flush(t.Context()))
		case 1:
			assert.OK(t, db.Compact(t.Context()))
		case 2:
			assert.OK(t, db.Default().SetDiscardVersion(n-min(n, r.Uint64N(20))))
		case 3:
			assert.Must(db.Reclaim(t.Context()))
		}
		if r.IntN(20) > 0 {
			continue
		}
		crashed := o
		crashed.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.CrashMode(r.IntN(4)), Seed: r.Uint64()})
		left := assert.Must(brock.Open(crashed))
		applied := uint64(0)
		switch value, err := left.Get([]byte("applied")); {
		case err == nil:
			applied = assert.Must(strconv.ParseUint(string(value), 10, 64))
		case !errors.Is(err, brock.ErrKeyNotFound):
			t.Fatal(err)
		}
		assert.Equal(t, "newest version", left.Version(), applied)
		if applied < n {
			taken++
		}
		for again := applied + 1; again <= n; again++ {
			apply(left, again)
		}
		assert.SameText(t, "applied again", storetest.ShowContents(t, left), storetest.ShowContents(t, db))
		assert.OK(t, left.Close())
	}
	assert.OK(t, db.Close())
	if taken == 0 {
		t.Error("no power loss has taken a commit")
	}
}
