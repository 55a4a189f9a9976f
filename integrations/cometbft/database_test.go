package brockcometbft

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	db "github.com/cometbft/cometbft-db"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

func open(t testing.TB, o brock.Options) *Database {
	t.Helper()
	o.InMemory = o.FS == nil
	d, err := Open("test", "dir", o)
	assert.OK(t, err)
	t.Cleanup(func() { assert.OK(t, d.Close()) })
	return d
}

// both are a Database, and one seen through cometbft-db's database of a prefix.
func both(t *testing.T) map[string]db.DB {
	d := open(t, brock.Options{})
	assert.OK(t, d.Set([]byte("before"), []byte("v")))
	assert.OK(t, d.Set([]byte("zzz"), []byte("v")))
	return map[string]db.DB{"itself": open(t, brock.Options{}), "prefix": db.NewPrefixDB(d, []byte("prefix/"))}
}

// pairs is all that an iterator yields, which it closes.
func pairs(t testing.TB, it db.Iterator, err error) (all []string) {
	t.Helper()
	assert.OK(t, err)
	for ; it.Valid(); it.Next() {
		all = append(all, fmt.Sprintf("%q=%q", it.Key(), it.Value()))
	}
	assert.OK(t, it.Error())
	assert.OK(t, it.Close())
	return all
}

// TestBehaviour is what db.DB says of each method, and what cometbft-db's tests ask of every backend.
func TestBehaviour(t *testing.T) {
	for name, d := range both(t) {
		t.Run(name, func(t *testing.T) {
			a, b := []byte("a"), []byte("b")
			want := func(key, value []byte) {
				t.Helper()
				got, err := d.Get(key)
				found, err2 := d.Has(key)
				if err != nil || err2 != nil || !bytes.Equal(got, value) || (got == nil) != (value == nil) || found != (value != nil) {
					t.Errorf("%q has %q (nil: %v), %v, found: %v, %v", key, got, got == nil, err, found, err2)
				}
			}
			want(a, nil)
			assert.OK(t, d.Set(a, []byte{1}))
			want(a, []byte{1})
			assert.OK(t, d.SetSync(b, []byte{2}))
			want(b, []byte{2})
			assert.OK(t, d.SetSync(b, []byte{}))
			want(b, []byte{})
			assert.OK(t, d.Set(b, []byte{}))
			want(b, []byte{})
			assert.OK(t, d.Delete([]byte("absent")))
			assert.OK(t, d.DeleteSync([]byte("absent")))
			assert.OK(t, d.Delete(a))
			want(a, nil)
			assert.OK(t, d.DeleteSync(b))
			want(b, nil)
			for _, key := range [][]byte{nil, {}} {
				batch := d.NewBatch()
				for what, err := range map[string]error{
					"Get": assert.ErrorOf(d.Get(key)), "Has": assert.ErrorOf(d.Has(key)), "Set": d.Set(key, a), "SetSync": d.SetSync(key, a),
					"Delete": d.Delete(key), "DeleteSync": d.DeleteSync(key), "batch Set": batch.Set(key, a), "batch Delete": batch.Delete(key),
				} {
					if err == nil {
						t.Errorf("%s of an empty key: no error", what)
					}
				}
				if key != nil && name == "itself" {
					for what, err := range map[string]error{
						"Iterator": assert.ErrorOf(d.Iterator(key, nil)), "end": assert.ErrorOf(d.Iterator(nil, key)),
						"ReverseIterator": assert.ErrorOf(d.ReverseIterator(key, nil)), "reverse end": assert.ErrorOf(d.ReverseIterator(nil, key)),
					} {
						if !errors.Is(err, brock.ErrInvalid) {
							t.Errorf("%s with an empty bound: %v", what, err)
						}
					}
				}
				assert.OK(t, batch.Close())
			}
			batch := d.NewBatch()
			if d.Set(a, nil) == nil || d.SetSync(a, nil) == nil || batch.Set(a, nil) == nil {
				t.Error("a nil value was set")
			}
			assert.OK(t, batch.Close())
			assert.OK(t, d.Compact(nil, nil))
			assert.OK(t, d.Set(a, a))
			assert.OK(t, d.Compact(a, b))
			assert.OK(t, d.Compact(a, b))
			if stats := d.Stats(); len(stats) < 10 && name == "itself" {
				t.Errorf("stats %v", stats)
			}
		})
	}
}

// TestBatch: order, what is visible, and use after Write and Close.
func TestBatch(t *testing.T) {
	for name, d := range both(t) {
		t.Run(name, func(t *testing.T) {
			a, b, c := []byte("a"), []byte("b"), []byte("c")
			all := func() string {
				it, err := d.Iterator(nil, nil)
				return strings.Join(pairs(t, it, err), " ")
			}
			for _, sync := range []bool{false, true} {
				batch := d.NewBatch()
				write := batch.Write
				if sync {
					write = batch.WriteSync
				}
				before := all()
				assert.OK(t, batch.Delete(a))
				assert.OK(t, batch.Set(a, []byte("1")))
				assert.OK(t, batch.Set(b, []byte("1")))
				assert.OK(t, batch.Set(b, []byte("2")))
				assert.OK(t, batch.Set(c, []byte("3")))
				assert.OK(t, batch.Delete(c))
				if now := all(); now != before {
					t.Errorf("before Write: %s", now)
				}
				assert.OK(t, write())
				if now := all(); now != `"a"="1" "b"="2"` {
					t.Errorf("after Write: %s", now)
				}
				for range 2 {
					for what, err := range map[string]error{
						"Set": batch.Set(a, a), "Delete": batch.Delete(a), "Write": batch.Write(), "WriteSync": batch.WriteSync(),
					} {
						if err == nil {
							t.Errorf("%s of a batch that was written: no error", what)
						}
					}
					assert.OK(t, batch.Close())
					assert.OK(t, batch.Close())
				}
				for _, end := range []func(batch db.Batch) error{db.Batch.Write, db.Batch.WriteSync, db.Batch.Close} {
					empty := d.NewBatch()
					assert.OK(t, end(empty))
					if empty.Set(a, a) == nil || empty.Write() == nil {
						t.Error("a batch that has ended was used")
					}
					assert.OK(t, empty.Close())
				}
			}
		})
	}
}

// TestAsGoLevelDB does the same at random to cometbft-db's goleveldb and its database in memory, and
// compares all ranges, both ways.
func TestAsGoLevelDB(t *testing.T) {
	rng := draw.Rand(t)
	other, err := db.NewDB("other", db.GoLevelDBBackend, t.TempDir())
	assert.OK(t, err)
	defer other.Close()
	ours := open(t, brock.Options{FS: vfs.NewMem()})
	all := []db.DB{ours, db.NewPrefixDB(ours, []byte("\xffp")), other, db.NewMemDB()}
	steps := 3000
	if testing.Short() {
		steps = 800
	}
	for i := range steps {
		key, value := randomKey(rng, false), bytes.Repeat([]byte{byte(i)}, rng.IntN(3)*400)
		start, end := randomKey(rng, true), randomKey(rng, true)
		step := rng.IntN(7)
		batched := make([]bool, rng.IntN(5))
		keys := make([][]byte, len(batched))
		for i := range batched {
			batched[i], keys[i] = rng.IntN(3) > 0, randomKey(rng, false)
		}
		var want string
		for _, d := range slices.Backward(all) {
			var got string
			switch step {
			case 0:
				assert.OK(t, d.Set(key, value))
			case 1:
				assert.OK(t, d.Delete(key))
			case 2:
				b := d.NewBatch()
				for i, key := range keys {
					if batched[i] {
						assert.OK(t, b.Set(key, value))
					} else {
						assert.OK(t, b.Delete(key))
					}
				}
				assert.OK(t, b.Write())
				assert.OK(t, b.Close())
			case 3:
				value, err := d.Get(key)
				found, err2 := d.Has(key)
				got = fmt.Sprint(value == nil, value, found, err, err2)
			case 4, 5:
				it, err := d.Iterator(start, end)
				got = strings.Join(pairs(t, it, err), "\n")
			default:
				it, err := d.ReverseIterator(start, end)
				got = strings.Join(pairs(t, it, err), "\n")
			}
			if d == all[len(all)-1] {
				want = got
			} else if d == ours {
				// It also has the keys of the prefix, behind all others.
				lines := slices.DeleteFunc(strings.Split(got, "\n"), func(l string) bool { return strings.HasPrefix(l, `"\xffp`) })
				got = strings.Join(lines, "\n")
			}
			if got != want {
				t.Fatalf("step %d, kind %d of %T, %q to %q: got\n%s\nwant\n%s", i, step, d, start, end, got, want)
			}
		}
	}
}

// randomKey returns a short key of few letters, or perhaps nil.
func randomKey(rng *rand.Rand, orNil bool) (key []byte) {
	if orNil && rng.IntN(4) == 0 {
		return nil
	}
	for range 1 + rng.IntN(3) {
		key = append(key, []byte{'a', 'b', 0, 0xfe}[rng.IntN(4)])
	}
	return key
}

// TestIterator: it reads one version, survives deletes of what it is at, and its memory is its own.
func TestIterator(t *testing.T) {
	d := open(t, brock.Options{FS: vfs.NewMem()})
	for i := range 100 {
		assert.OK(t, d.Set([]byte(fmt.Sprintf("%02d", i)), bytes.Repeat([]byte{byte(i)}, i*20)))
	}
	start := []byte("10")
	it, err := d.Iterator(start, []byte("90"))
	assert.OK(t, err)
	clear(start) // the caller may use it again
	if s, e := it.Domain(); string(s) != "10" || string(e) != "90" {
		t.Errorf("domain %q to %q", s, e)
	}
	n := 10
	for ; it.Valid(); it.Next() {
		if string(it.Key()) != fmt.Sprint(n) || !bytes.Equal(it.Value(), bytes.Repeat([]byte{byte(n)}, n*20)) {
			t.Fatalf("pair %d: %q", n, it.Key())
		}
		assert.OK(t, d.Delete(it.Key())) // while iterating
		assert.OK(t, d.Set([]byte("55x"), []byte("new")))
		clear(it.Key()) // writes to what it must not write to: nothing of the store
		clear(it.Value())
		n++
	}
	if n != 90 || it.Error() != nil {
		t.Errorf("%d pairs, %v", n, it.Error())
	}
	mustPanic(t, it) // as db.Iterator demands
	for range 2 {
		assert.OK(t, it.Close())
	}
	if it.Valid() {
		t.Error("valid after Close")
	}
	mustPanic(t, it)
	left, err := d.Iterator([]byte("10"), []byte("90"))
	if got := pairs(t, left, err); !slices.Equal(got, []string{`"55x"="new"`}) {
		t.Errorf("%v are left", got)
	}
	assert.OK(t, d.Set([]byte("00"), []byte("replaced")))
	if tree := d.Store().Metrics().Tree; tree.PinnedVersion != 0 {
		t.Errorf("version %d is read by %s", tree.PinnedVersion, tree.PinnedBy)
	}
}

func mustPanic(t *testing.T, it db.Iterator) {
	t.Helper()
	for what, call := range map[string]func(){"Next": it.Next, "Key": func() { it.Key() }, "Value": func() { it.Value() }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", what)
				}
			}()
			call()
		}()
	}
}

// TestMisuse: every call after Close returns an error, and nothing panics that was fine before.
func TestMisuse(t *testing.T) {
	owned := open(t, brock.Options{})
	shared := New(owned.Store(), nil)
	k := []byte("k")
	for _, d := range []*Database{shared, owned} {
		assert.OK(t, d.Set(k, []byte("v")))
		assert.OK(t, d.Set([]byte("l"), []byte("v")))
		batch := d.NewBatch()
		assert.OK(t, batch.Set(k, k))
		var at []db.Iterator
		for range 4 {
			it, err := d.Iterator(nil, nil)
			assert.OK(t, err)
			at = append(at, it)
		}
		for range 2 {
			assert.OK(t, d.Close())
		}
		for name, err := range map[string]error{
			"Get": assert.ErrorOf(d.Get(k)), "Has": assert.ErrorOf(d.Has(k)), "Set": d.Set(k, k), "SetSync": d.SetSync(k, k),
			"Delete": d.Delete(k), "DeleteSync": d.DeleteSync(k), "Iterator": assert.ErrorOf(d.Iterator(nil, nil)),
			"ReverseIterator": assert.ErrorOf(d.ReverseIterator(nil, nil)), "Print": d.Print(), "Compact": d.Compact(nil, nil), "Write": batch.Write(),
		} {
			if !errors.Is(err, brock.ErrClosed) {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
		if d.Stats() != nil {
			t.Error("stats after Close")
		}
		at[0].Valid()
		at[1].Key()
		at[2].Value()
		at[3].Next()
		for i, it := range at {
			it.Next() // it ended without its user's doing, so there is no panic
			it.Key()
			it.Value()
			if it.Valid() || !errors.Is(it.Error(), brock.ErrClosed) {
				t.Errorf("iterator %d: %v", i, it.Error())
			}
			assert.OK(t, it.Close())
		}
	}
}

// TestPrint looks at what Print writes.
func TestPrint(t *testing.T) {
	d := open(t, brock.Options{})
	assert.OK(t, d.Set([]byte{0xab}, []byte{1, 2}))
	r, w, err := os.Pipe()
	assert.OK(t, err)
	out := os.Stdout
	os.Stdout = w
	err = d.Print()
	os.Stdout = out
	assert.OK(t, err)
	assert.OK(t, w.Close())
	text, err := io.ReadAll(r)
	if err != nil || !strings.HasSuffix(string(text), "[AB]:\t[0102]\n") {
		t.Errorf("%s, %v", text, err)
	}
}

// TestPowerLoss: what was written up to a call with Sync survives, and of a later batch all or nothing.
func TestPowerLoss(t *testing.T) {
	for i := range 24 {
		disk := vfs.NewMem()
		d, err := Open("state", "dir", brock.Options{FS: disk})
		assert.OK(t, err)
		batch := func(name string) db.Batch {
			b := d.NewBatch()
			for i := range 20 {
				assert.OK(t, b.Set([]byte(fmt.Sprint(name, i)), make([]byte, i*100)))
			}
			return b
		}
		assert.OK(t, batch("first").Write())
		switch i % 4 {
		case 0:
			assert.OK(t, d.SetSync([]byte("first"), []byte{}))
		case 1:
			assert.OK(t, d.Set([]byte("first"), []byte{}))
			assert.OK(t, d.DeleteSync([]byte("absent")))
		case 2:
			b := d.NewBatch()
			assert.OK(t, b.Set([]byte("first"), []byte{}))
			assert.OK(t, b.WriteSync())
		default:
			assert.OK(t, d.Set([]byte("first"), []byte{}))
			assert.OK(t, d.NewBatch().WriteSync()) // of nothing
		}
		assert.OK(t, batch("later").Write())
		crashed, err := Open("state", "dir", brock.Options{FS: disk.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: draw.Seed(t)})})
		assert.OK(t, err)
		assert.OK(t, d.Close())
		it, err := crashed.Iterator([]byte("first"), []byte("g"))
		if n := len(pairs(t, it, err)); n != 21 {
			t.Errorf("kind %d: %d of 21 synced pairs are left", i%4, n)
		}
		it, err = crashed.Iterator([]byte("later"), nil)
		if n := len(pairs(t, it, err)); n != 0 && n != 20 {
			t.Errorf("%d of a batch of 20 are left", n)
		}
		assert.OK(t, crashed.Close())
	}
}

// TestFullDisk: sets and batches are refused and harm nothing; deletes go on, and then sets.
func TestFullDisk(t *testing.T) {
	disk := vfs.NewMem()
	disk.SetCapacity(16 << 20)
	d := open(t, brock.Options{FS: disk, MemoryLimit: 4 << 20, Tuning: brock.Tuning{SegmentSize: 1 << 20}})
	value, n := make([]byte, 64<<10), 0
	var err error
	for ; err == nil; n++ {
		b := d.NewBatch()
		assert.OK(t, b.Set([]byte(fmt.Sprintf("%04da", n)), value))
		assert.OK(t, b.Set([]byte(fmt.Sprintf("%04db", n)), value))
		err = b.Write()
	}
	if !errors.Is(err, brock.ErrNoSpace) {
		t.Fatal(err)
	}
	it, err := d.Iterator(nil, nil)
	assert.OK(t, err)
	left := 0
	for ; it.Valid(); it.Next() {
		assert.OK(t, d.Delete(it.Key()))
		left++
	}
	assert.OK(t, it.Close())
	if left != 2*(n-1) {
		t.Errorf("%d pairs after %d batches", left, n-1)
	}
	_, err = d.Store().Reclaim(t.Context())
	assert.OK(t, err)
	assert.OK(t, d.SetSync([]byte("again"), value))
}

// TestDirectory: the store lies where cometbft-db's backends have theirs, and is there again.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	d, err := Open("blockstore", dir, brock.Options{Dir: "ignored"})
	assert.OK(t, err)
	assert.OK(t, d.Set([]byte("k"), []byte("v")))
	if _, err := Open("blockstore", dir, brock.Options{}); !errors.Is(err, brock.ErrLocked) {
		t.Errorf("a second Open: %v", err)
	}
	assert.OK(t, d.Close())
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 || names[0].Name() != "blockstore.db" {
		t.Errorf("%v, %v", names, err)
	}
	d, err = Open("blockstore", dir, brock.Options{Mode: brock.ReadOnly})
	assert.OK(t, err)
	if got, err := d.Get([]byte("k")); err != nil || string(got) != "v" {
		t.Errorf("%q, %v", got, err)
	}
	if err := d.SetSync([]byte("k"), []byte("w")); !errors.Is(err, brock.ErrReadOnly) {
		t.Errorf("SetSync: %v", err)
	}
	assert.OK(t, d.Close())
}

// TestConcurrent uses everything at once, for the race detector, and closes the Database meanwhile.
func TestConcurrent(t *testing.T) {
	d := open(t, brock.Options{})
	var users sync.WaitGroup
	many := make(chan struct{})
	for n := range 4 {
		users.Go(func() {
			for i := 0; ; i++ {
				if n == 0 && i == 200 {
					close(many)
				}
				if err := useAll(d, []byte{byte(i % 5)}); err != nil {
					if !errors.Is(err, brock.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	<-many
	assert.OK(t, d.Close())
	users.Wait()
}

func useAll(d *Database, key []byte) error {
	it, err := d.ReverseIterator(nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	b := d.NewBatch()
	defer b.Close()
	_, err = d.Has(key)
	err = errors.Join(err, d.Set(key, []byte("v")), d.SetSync(key, []byte("w")), b.Set(key, key), b.Write(), d.Delete(key))
	for ; it.Valid(); it.Next() {
		it.Key()
		it.Value()
	}
	return errors.Join(err, it.Error())
}
