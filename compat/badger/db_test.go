package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"expvar"
	"fmt"
	"log"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	up "github.com/dgraph-io/badger/v4"

	"github.com/brockdb/brock"
)

func TestDrop(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		s.set("a=1 a\x00=1 a\x00b=1 ab=1 b=1 c=1")
		txn := s.begin(false)
		defer txn.Discard()
		check(t, s.db.DropPrefix())
		check(t, s.db.DropPrefix([]byte("a\x00"), []byte("c")))
		wantText(t, "pairs", dump(t, s.db), "a=1 ab=1 b=1")
		check(t, s.db.DropPrefix([]byte("a")))
		wantText(t, "pairs", dump(t, s.db), "b=1")
		check(t, s.db.DropAll())
		wantText(t, "pairs", dump(t, s.db), "")
		// It is a commit like any other: who began before it still sees the pairs.
		wantText(t, "before", scan(t, txn, IteratorOptions{}), "a=1 a\x00=1 a\x00b=1 ab=1 b=1 c=1")
		s.last = s.db.MaxVersion()
		s.set("d=1")
		wantText(t, "pairs", dump(t, s.db), "d=1")
	})
}

// Writers are not stopped by drops.
func TestDropBesideWriters(t *testing.T) {
	db := openDB(t, memory())
	var all sync.WaitGroup
	quit := make(chan struct{})
	for g := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-quit:
					return
				default:
				}
				if err := db.Update(func(txn *Txn) error { return txn.Set(fmt.Appendf(nil, "%d-%d", g, i), nil) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		check(t, db.DropAll())
		check(t, db.DropPrefix([]byte("1")))
	}
	close(quit)
	all.Wait()
	check(t, db.DropAll())
	wantText(t, "pairs", dump(t, db), "")
}

func TestRunValueLogGC(t *testing.T) {
	db := openDB(t, quiet(t.TempDir()))
	for _, ratio := range []float64{0, 1, -1, 2, math.NaN()} {
		wantErr(t, fmt.Sprint(ratio), db.RunValueLogGC(ratio), ErrInvalidRequest)
	}
	db.collect.Lock()
	wantErr(t, "beside another", db.RunValueLogGC(0.5), ErrRejected)
	db.collect.Unlock()
	for range 3 {
		wb := db.NewWriteBatch()
		for i := range 300 {
			v := make([]byte, 10<<10)
			for j := range v {
				v[j] = byte(i * j >> 3)
			}
			check(t, wb.Set(fmt.Appendf(nil, "%d", i), v))
		}
		check(t, wb.Flush())
	}
	check(t, db.DropPrefix([]byte("1"), []byte("2")))
	check(t, db.RunValueLogGC(0.5))
	for n := 0; ; n++ {
		if err := db.RunValueLogGC(0.5); err != nil { // as programs do
			wantErr(t, "in a loop", err, ErrNoRewrite)
			break
		}
		if n > 20 {
			t.Fatal("the loop does not end")
		}
	}
	if lsm, vlog := db.Size(); lsm+vlog > 5<<20 {
		t.Errorf("%d bytes for 780 kB", lsm+vlog)
	}
	check(t, db.VerifyChecksum())
}

func TestVerifyChecksumFindsDamage(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(quiet(dir))
	check(t, err)
	set(t, db, "a="+strings.Repeat("x", 5000))
	check(t, db.Flatten(1))
	check(t, db.Close())
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range entries {
		if path := dir + "/" + e.Name(); strings.HasSuffix(path, ".run") {
			raw, err := os.ReadFile(path)
			check(t, err)
			raw[len(raw)/2] ^= 0xff
			check(t, os.WriteFile(path, raw, 0o600))
		}
	}
	db, err = Open(quiet(dir))
	if err == nil {
		err = db.VerifyChecksum()
		check(t, db.Close())
	}
	if !errors.Is(err, brock.ErrCorrupt) {
		t.Errorf("error %v", err)
	}
}

func TestNamespaces(t *testing.T) {
	plain := openDB(t, memory())
	wantErr(t, "without an offset", plain.BanNamespace(1), ErrNamespaceMode)
	for _, managed := range []bool{false, true} {
		opt := quiet(t.TempDir()).WithNamespaceOffset(1)
		opt.managedTxns = managed
		db, err := Open(opt)
		check(t, err)
		key := func(ns uint64, rest string) []byte {
			return append(binary.BigEndian.AppendUint64([]byte{'k'}, ns), rest...)
		}
		begin := func() *Txn {
			if managed {
				return db.NewTransactionAt(5, true)
			}
			return db.NewTransaction(true)
		}
		keys := func() (out []string) {
			txn := begin()
			defer txn.Discard()
			it := txn.NewIterator(DefaultIteratorOptions)
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				out = append(out, string(it.Item().KeyCopy(nil)))
			}
			return out
		}
		txn := begin()
		for ns := range uint64(3) {
			check(t, txn.Set(key(ns, "a"), []byte("v")))
		}
		check(t, txn.Set([]byte("short"), nil))
		check(t, txn.Set(key(1, ""), nil)) // only the number, which is no key of the namespace
		if managed {
			check(t, txn.CommitAt(5, nil))
		} else {
			check(t, txn.Commit())
		}
		check(t, db.BanNamespace(1))
		check(t, db.BanNamespace(77))
		for range 2 {
			got := db.BannedNamespaces()
			if slices.Sort(got); !slices.Equal(got, []uint64{1, 77}) {
				t.Errorf("banned %v", got)
			}
			txn = begin()
			_, err = txn.Get(key(1, "a"))
			wantErr(t, "Get", err, ErrBannedKey)
			wantErr(t, "Set", txn.Set(key(1, "b"), nil), ErrBannedKey)
			_, err = txn.Get(key(2, "a"))
			check(t, err)
			txn.Discard()
			want := []string{string(key(0, "a")), string(key(1, "")), string(key(2, "a")), "short"}
			if got := keys(); !slices.Equal(got, want) {
				t.Errorf("keys %q", got)
			}
			check(t, db.Close())
			db, err = Open(opt)
			check(t, err)
		}
		check(t, db.Close())
	}
	ro := openDB(t, func() Options {
		opt := quiet(t.TempDir()).WithNamespaceOffset(0)
		db, err := Open(opt)
		check(t, err)
		check(t, db.Close())
		return opt.WithReadOnly(true)
	}())
	wantPanic(t, "read-only", "Cannot ban namespace in read-only mode.", func() { _ = ro.BanNamespace(1) })
}

func TestSequence(t *testing.T) {
	db := openDB(t, memory())
	_, err := db.GetSequence(nil, 1)
	wantErr(t, "key", err, ErrEmptyKey)
	_, err = db.GetSequence([]byte("s"), 0)
	wantErr(t, "bandwidth", err, ErrZeroBandwidth)
	next := func(seq *Sequence, want uint64) {
		t.Helper()
		n, err := seq.Next()
		check(t, err)
		if n != want {
			t.Errorf("next %d, want %d", n, want)
		}
	}
	a, err := db.GetSequence([]byte("s"), 10)
	check(t, err)
	for i := range uint64(15) {
		next(a, i)
	}
	b, err := db.GetSequence([]byte("s"), 10)
	check(t, err)
	next(b, 20)
	check(t, a.Release()) // b has had a later lease
	check(t, b.Release())
	next(a, 21)
	next(b, 31)
	check(t, db.View(func(txn *Txn) error {
		item, err := txn.Get([]byte("s"))
		check(t, err)
		return item.Value(func(v []byte) error {
			if binary.BigEndian.Uint64(v) != 41 {
				t.Errorf("noted %x", v)
			}
			return nil
		})
	}))
	check(t, db.DropAll())
	wantErr(t, "Release", b.Release(), ErrKeyNotFound)
	set(t, db, "bad=x")
	if _, err := db.GetSequence([]byte("bad"), 1); err == nil {
		t.Error("a value of one byte")
	}
}

// Sequences of one key lease at the same time, and no number comes twice. In Badger a lease may return
// ErrConflict.
func TestSequenceInParallel(t *testing.T) {
	db := openDB(t, memory())
	var mu sync.Mutex
	seen := make(map[uint64]bool)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			seq, err := db.GetSequence([]byte("s"), 3)
			if err != nil {
				t.Error(err)
				return
			}
			for range 50 {
				n, err := seq.Next()
				mu.Lock()
				if err != nil || seen[n] {
					t.Errorf("%d again, or error %v", n, err)
				}
				seen[n] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

func TestMergeOperator(t *testing.T) {
	db := openDB(t, memory())
	add := func(existing, val []byte) []byte {
		return binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(existing)+binary.BigEndian.Uint64(val))
	}
	op := db.GetMergeOperator([]byte("sum"), add, 0)
	_, err := op.Get()
	wantErr(t, "Get", err, ErrKeyNotFound)
	var all sync.WaitGroup
	for i := range uint64(8) {
		all.Go(func() {
			for range 20 {
				if err := op.Add(binary.BigEndian.AppendUint64(nil, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	op.Stop()
	got, err := op.Get()
	check(t, err)
	if n := binary.BigEndian.Uint64(got); n != 20*28 {
		t.Errorf("sum %d", n)
	}
	// The order of the Adds is that of the merges, and the value is one value at once.
	text := db.GetMergeOperator([]byte("text"), func(existing, val []byte) []byte { return append(bytes.Clone(existing), val...) }, 0)
	for _, s := range []string{"a", "b", "c"} {
		check(t, text.Add([]byte(s)))
	}
	check(t, db.View(func(txn *Txn) error {
		wantText(t, "value", get(t, txn, "text"), "abc")
		return nil
	}))
	check(t, db.View(func(txn *Txn) error {
		item, err := txn.Get([]byte("text"))
		check(t, err)
		if !item.DiscardEarlierVersions() {
			t.Error("versions before a merge stay")
		}
		return nil
	}))
	wantErr(t, "empty key", db.GetMergeOperator(nil, nil, 0).Add(nil), ErrEmptyKey)
}

// A prefix that ends with 0xff is not taken for a shorter key, as in Badger, whose stored keys go on with
// the version.
func TestDropPrefixEndsWithFF(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		s.set("a=1 a\xff=2 a\xffb=3 b=4")
		check(t, s.db.DropPrefix([]byte("a\xff")))
		wantText(t, "pairs", dump(t, s.db), "a=1 b=4")
	})
	theirs, err := up.Open(up.DefaultOptions("").WithInMemory(true).WithLogger(nil))
	check(t, err)
	defer theirs.Close()
	check(t, theirs.Update(func(txn *up.Txn) error {
		return errors.Join(txn.Set([]byte("a"), nil), txn.Set([]byte("a\xff"), nil))
	}))
	check(t, theirs.DropPrefix([]byte("a\xff")))
	wantErr(t, "Badger", theirs.View(func(txn *up.Txn) error { _, err := txn.Get([]byte("a")); return err }), up.ErrKeyNotFound)
}

func TestTables(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		if got := s.db.Tables(); len(got) != 0 {
			t.Errorf("tables of an empty store: %v", got)
		}
		s.set("a=1 m=1 z=1")
		s.set("a=2")
		tables := s.db.Tables()
		if len(tables) != 1 || tables[0].MaxVersion != 2 || tables[0].Level != 6 || tables[0].KeyCount == 0 ||
			string(tables[0].Left[:1]) != "a" || string(tables[0].Right[:1]) != "z" || len(tables[0].Left) != 9 {
			t.Errorf("tables %+v", tables)
		}
		levels := s.db.Levels()
		if len(levels) != 7 || levels[0].NumTables != 0 || levels[6].NumTables != 1 {
			t.Errorf("levels %+v", levels)
		}
		if text := s.db.LevelsToString(); !strings.Contains(text, "Level 6 [B]: NumTables: 01.") || !strings.HasSuffix(text, "Level Done\n") {
			t.Errorf("levels %s", text)
		}
		all, same := s.db.EstimateSize(nil)
		one, _ := s.db.EstimateSize([]byte("m"))
		if none, _ := s.db.EstimateSize([]byte("x")); all == 0 || all != same || one == 0 || one > all || none != 0 {
			t.Errorf("sizes: all %d, one %d, none %d", all, one, none)
		}
		for cache, want := range map[CacheType]error{BlockCache: nil, IndexCache: nil, 7: errors.New("invalid cache type")} {
			for _, cost := range []int64{5, -1} {
				if n, err := s.db.CacheMaxCost(cache, cost); fmt.Sprint(err) != fmt.Sprint(want) || err == nil && n != 5 {
					t.Errorf("cache %d: %d, %v", cache, n, err)
				}
			}
		}
		if s.db.BlockCacheMetrics() != nil || s.db.IndexCacheMetrics() != nil {
			t.Error("metrics of caches")
		}
	})
}

// Ranges cover all keys once, in order.
func TestRanges(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		var pairs []string
		for i := range 2000 {
			pairs = append(pairs, fmt.Sprintf("%04d\x00=%0100d", i, i))
		}
		s.set(strings.Join(pairs, " "))
		s.set(strings.Join(pairs[:1000], " "))
		for _, n := range []int{0, 1, 4, 16} {
			ranges := s.db.Ranges(nil, n)
			if len(ranges) > max(n, 1) || n == 16 && len(ranges) < 4 {
				t.Errorf("%d ranges of %d", len(ranges), n)
			}
			for i, r := range ranges {
				if i == 0 && r.left != nil || i > 0 && !bytes.Equal(r.left, ranges[i-1].right) || (r.right == nil) != (i == len(ranges)-1) {
					t.Errorf("range %d: %v", i, r)
				}
			}
		}
	})
}

func TestMetrics(t *testing.T) {
	db := openDB(t, quiet(t.TempDir()))
	before := published.puts.Value()
	set(t, db, "a=1 b=2")
	check(t, db.View(func(txn *Txn) error {
		get(t, txn, "a")
		scan(t, txn, DefaultIteratorOptions)
		return nil
	}))
	check(t, db.Flatten(1))
	db.meter.update(db)
	if n := published.puts.Value() - before; n != 2 {
		t.Errorf("%d puts", n)
	}
	if published.runSize.Get(db.opt.Dir) == nil || published.reads.Value() == 0 || published.iterators.Value() == 0 {
		t.Error("no size, no reads or no iterators")
	}
	// The names of Badger; here Badger itself has published them.
	for _, name := range []string{"get_num_memtable", "size_bytes_lsm", "size_bytes_vlog", "put_num_user", "write_bytes_compaction"} {
		if expvar.Get("badger_"+name) == nil {
			t.Errorf("no variable %s", name)
		}
	}
	off := openDB(t, memory().WithMetricsEnabled(false))
	if off.meter.quit != nil {
		t.Error("it counts")
	}
}

// Our variables have the names and kinds of Badger's.
func TestMetricNames(t *testing.T) {
	names := make(map[string]bool)
	expvar.Do(func(kv expvar.KeyValue) {
		if strings.HasPrefix(kv.Key, "badger_") {
			names[kv.Key] = true
		}
	})
	source, err := os.ReadFile("metrics.go")
	check(t, err)
	for name := range names {
		if !bytes.Contains(source, fmt.Appendf(nil, "%q", strings.TrimPrefix(name, "badger_"))) {
			t.Errorf("no variable %s", name)
		}
	}
	if len(names) < 15 || up.DefaultOptions("").Dir != "" {
		t.Errorf("%d names of Badger", len(names))
	}
}

// lines is a Logger that keeps its lines.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(level, format string, v []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, level+" "+fmt.Sprintf(format, v...))
}
func (l *lines) Errorf(f string, v ...any)   { l.add("E", f, v) }
func (l *lines) Warningf(f string, v ...any) { l.add("W", f, v) }
func (l *lines) Infof(f string, v ...any)    { l.add("I", f, v) }
func (l *lines) Debugf(f string, v ...any)   { l.add("D", f, v) }

func TestLogger(t *testing.T) {
	var got lines
	db, err := Open(quiet(t.TempDir()).WithLogger(&got))
	check(t, err)
	check(t, db.Close())
	got.mu.Lock()
	if all := strings.Join(got.all, "\n"); !strings.Contains(all, "I store opened dir=") {
		t.Errorf("log %q", all)
	}
	got.all = nil
	got.mu.Unlock()
	l := newSlog(&got).With("a", 1).WithGroup("g").With("b", 2)
	l.Debug("m%d", "c", 3)
	l.Info("m")
	l.Warn("m")
	l.Error("m")
	wantText(t, "lines", strings.Join(got.all, "|"), "D m%d a=1 g.b=2 g.c=3|I m a=1 g.b=2|W m a=1 g.b=2|E m a=1 g.b=2")
	opt := Options{Logger: &got}
	got.all = nil
	opt.Errorf("%d", 1)
	opt.Warningf("%d", 2)
	opt.Infof("%d", 3)
	opt.Debugf("%d", 4)
	wantText(t, "lines", strings.Join(got.all, "|"), "E 1|W 2|I 3|D 4")
	silent := Options{}
	silent.Errorf("x")
	silent.Warningf("x")
	silent.Infof("x")
	silent.Debugf("x")

	var b bytes.Buffer
	for level := DEBUG; level <= ERROR; level++ {
		d := &defaultLog{Logger: log.New(&b, "", 0), level: level}
		d.Debugf("d")
		d.Infof("i")
		d.Warningf("w")
		d.Errorf("e")
	}
	wantText(t, "default", strings.Join(strings.Fields(b.String()), " "),
		"DEBUG: d INFO: i WARNING: w ERROR: e INFO: i WARNING: w ERROR: e WARNING: w ERROR: e ERROR: e")
}

// The errors have the texts of Badger's, as programs log and match them.
func TestErrorTexts(t *testing.T) {
	for _, c := range [][2]error{
		{ErrValueLogSize, up.ErrValueLogSize}, {ErrKeyNotFound, up.ErrKeyNotFound}, {ErrTxnTooBig, up.ErrTxnTooBig}, {ErrConflict, up.ErrConflict},
		{ErrReadOnlyTxn, up.ErrReadOnlyTxn}, {ErrDiscardedTxn, up.ErrDiscardedTxn}, {ErrEmptyKey, up.ErrEmptyKey}, {ErrInvalidKey, up.ErrInvalidKey},
		{ErrBannedKey, up.ErrBannedKey}, {ErrThresholdZero, up.ErrThresholdZero}, {ErrNoRewrite, up.ErrNoRewrite}, {ErrRejected, up.ErrRejected},
		{ErrInvalidRequest, up.ErrInvalidRequest}, {ErrManagedTxn, up.ErrManagedTxn}, {ErrNamespaceMode, up.ErrNamespaceMode}, {ErrInvalidDump, up.ErrInvalidDump},
		{ErrZeroBandwidth, up.ErrZeroBandwidth}, {ErrWindowsNotSupported, up.ErrWindowsNotSupported}, {ErrPlan9NotSupported, up.ErrPlan9NotSupported},
		{ErrTruncateNeeded, up.ErrTruncateNeeded}, {ErrBlockedWrites, up.ErrBlockedWrites}, {ErrNilCallback, up.ErrNilCallback},
		{ErrEncryptionKeyMismatch, up.ErrEncryptionKeyMismatch}, {ErrInvalidDataKeyID, up.ErrInvalidDataKeyID},
		{ErrInvalidEncryptionKey, up.ErrInvalidEncryptionKey}, {ErrGCInMemoryMode, up.ErrGCInMemoryMode}, {ErrGCInReadOnlyMode, up.ErrGCInReadOnlyMode},
		{ErrDBClosed, up.ErrDBClosed},
	} {
		wantText(t, "error", c[0].Error(), c[1].Error())
	}
	if ValueThresholdLimit != up.ValueThresholdLimit {
		t.Error("ValueThresholdLimit")
	}
}
