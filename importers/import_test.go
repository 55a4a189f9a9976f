package importers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/brockdb/brock"
)

// imports imports without an error, and checks that nothing of the source has changed.
func imports(t *testing.T, o Options) *Summary {
	t.Helper()
	before := hashFiles(t, o.Source)
	s, err := Import(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	unchanged(t, o.Source, before)
	if _, err := os.Stat(o.Store.Dir + WorkSuffix); !os.IsNotExist(err) {
		t.Errorf("the directory of the import is there: %v", err)
	}
	return s
}

// unchanged checks that the files of a source are those that were hashed.
func unchanged(t *testing.T, path string, before map[string]string) {
	t.Helper()
	if after := hashFiles(t, path); !maps.Equal(after, before) {
		t.Errorf("the source has changed: %d files before, %d after", len(before), len(after))
		for name, sum := range before {
			if after[name] != sum {
				t.Errorf("%s is another file", name)
			}
		}
	}
}

// TestImport: what a source has is in the store, and nothing else; the source stays as it is; a second
// import is refused; a compare finds what is changed on either side.
func TestImport(t *testing.T) {
	for _, f := range fixtures() {
		t.Run(f.name, func(t *testing.T) {
			dir := t.TempDir()
			source := f.closed(t, dir)
			o := Options{Peer: f.peer, Source: source, Store: brock.Options{Dir: filepath.Join(dir, "store")}, chunkBytes: 100_000}
			s := imports(t, o)
			wantNewest(t, o.Store.Dir, f.want)
			if s.Pairs == 0 || s.Resumed || len(s.Lost) > 0 {
				t.Errorf("summary %+v", s)
			}
			if _, err := Import(t.Context(), o); !errors.Is(err, ErrNotEmpty) {
				t.Errorf("a second import: %v", err)
			}
			if _, err := os.Stat(o.Store.Dir + WorkSuffix); !os.IsNotExist(err) {
				t.Errorf("the refused import has left its directory: %v", err)
			}
			c, err := Compare(t.Context(), o)
			if err != nil || c.Pairs != s.Compared.Pairs {
				t.Fatalf("compare: %v, %+v", err, c)
			}
			name, key, other := someKeys(f.want)
			change(t, o.Store.Dir, name, func(txn *brock.Txn) error {
				return errors.Join(txn.Set([]byte("a new key"), nil), txn.Delete([]byte(key)), txn.Set([]byte(other), []byte("changed")))
			})
			c, err = Compare(t.Context(), o)
			if !errors.Is(err, ErrDiffers) || c.Differences != 3 {
				t.Fatalf("compare of a changed store: %v, %+v", err, c)
			}
			text := ""
			for _, d := range c.First {
				text += d.String() + "\n"
			}
			for _, want := range []string{notInStore, notInSource, "has another value"} {
				if !strings.Contains(text, want) {
					t.Errorf("the differences lack %q:\n%s", want, text)
				}
			}
			unchanged(t, source, hashFiles(t, source))
		})
	}
}

// someKeys returns a keyspace and two keys with values in it.
func someKeys(want map[string]*record) (name, key, other string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		m := want[name].newest()
		var keys []string
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if len(m[key].value) > 0 && !strings.HasPrefix(name, "%") {
				keys = append(keys, key)
			}
		}
		if len(keys) >= 2 {
			return name, keys[0], keys[1]
		}
	}
	panic("no keys")
}

// change runs fn in an update of a store, with all versions kept.
func change(t *testing.T, dir, name string, fn func(*brock.Txn) error) {
	t.Helper()
	db, err := brock.Open(brock.Options{Dir: dir, MustExist: true, KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Manual: true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(txn *brock.Txn) error {
		ks, err := keyspaceOf(db, name)
		if err != nil {
			return err
		}
		return fn(txn.In(ks))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHistory: all versions and deletes of Badger have their own versions in the store.
func TestHistory(t *testing.T) {
	for _, f := range fixtures() {
		if badgers[f.peer] == nil {
			o := Options{Peer: f.peer, Source: "s", History: true, Store: brock.Options{Dir: "d"}}
			if _, err := Import(t.Context(), o); !errors.Is(err, ErrUsage) {
				t.Errorf("history of %s: %v", f.peer, err)
			}
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			dir := t.TempDir()
			source := f.closed(t, dir)
			o := Options{Peer: f.peer, Source: source, Store: brock.Options{Dir: filepath.Join(dir, "store")}, History: true}
			s := imports(t, o)
			wantHistory(t, o.Store.Dir, badgerPairs)
			last := badgerPairs.pairs[len(badgerPairs.pairs)-1].version
			if s.Version != last {
				t.Errorf("the store has version %d, the source %d", s.Version, last)
			}
			readAt(t, o.Store.Dir, 1, "one")
			readAt(t, o.Store.Dir, last, "two")
			c, err := Compare(t.Context(), o)
			if err != nil || c.Pairs < 1500 {
				t.Fatalf("compare: %v, %+v", err, c)
			}
			change(t, o.Store.Dir, "", func(txn *brock.Txn) error {
				return errors.Join(txn.Set([]byte("first"), []byte("three")), txn.Delete([]byte("empty")))
			})
			if c, err = Compare(t.Context(), o); !errors.Is(err, ErrDiffers) || c.Differences != 2 {
				t.Fatalf("compare of a changed store: %v, %+v", err, c)
			}
		})
	}
}

// readAt reads the key first in a whole state of a store, as it was at a version of the source.
func readAt(t *testing.T, dir string, version uint64, want string) {
	t.Helper()
	db, err := brock.Open(brock.Options{Dir: dir, KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Manual: true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: version}, func(txn *brock.Txn) error {
		item, err := txn.Get([]byte("first"))
		if err != nil {
			return err
		}
		value, err := item.Value()
		if string(value) != want {
			t.Errorf("at version %d it is %q, want %q", version, value, want)
		}
		return err
	})
	if err != nil {
		t.Errorf("read at %d: %v", version, err)
	}
}

// TestLargeVersion: a version that is larger than a batch of several may be is one commit.
func TestLargeVersion(t *testing.T) {
	dir := t.TempDir()
	r := new(record)
	for i := range 3 {
		for range 6 {
			key := "key" + string(rune('a'+len(r.pairs)))
			r.set(uint64(10*(i+1)), key, strings.Repeat(key, 300_000), 0, 0)
		}
		r.set(uint64(10*(i+1)+1), "small", strings.Repeat("s", i), 0, 0)
	}
	source := filepath.Join(dir, "source")
	end, err := writeBadger4(source, "", nil, r)
	if err == nil {
		err = end()
	}
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Peer: Badger4, Source: source, Store: brock.Options{Dir: filepath.Join(dir, "store")}, History: true}
	imports(t, o)
	wantHistory(t, o.Store.Dir, r)
}

// TestEncrypted: Badger's encrypted stores need their key, and so does an encrypted store of Brock.
func TestEncrypted(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	for i, write := range []func(dir, values string, key []byte, r *record) (func() error, error){writeBadger2, writeBadger3, writeBadger4} {
		peer := []Peer{Badger2, Badger3, Badger4}[i]
		t.Run(string(peer), func(t *testing.T) {
			dir := t.TempDir()
			source := filepath.Join(dir, "source")
			end, err := write(source, "", key, badgerPairs)
			if err == nil {
				err = end()
			}
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Peer: peer, Source: source, Store: brock.Options{Dir: filepath.Join(dir, "store")}}
			for _, wrong := range [][]byte{nil, []byte("another key of thirty-two bytes.")} {
				o.SourceKey = wrong
				if _, err := Import(t.Context(), o); !errors.Is(err, ErrSource) {
					t.Errorf("key %q: %v", wrong, err)
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
					t.Errorf("an import that has failed at once has left %v, %v", left, err)
				}
			}
			o.SourceKey = []byte("short")
			if _, err := Import(t.Context(), o); !errors.Is(err, ErrUsage) {
				t.Errorf("a short key: %v", err)
			}
			o.SourceKey, o.History = key, true
			o.Store.Keys = brock.StaticKey(key)
			imports(t, o)
			if c, err := Compare(t.Context(), o); err != nil || c.Pairs < 1500 {
				t.Errorf("compare: %v, %+v", err, c)
			}
		})
	}
}

// TestValueDir: Badger's value log may have a directory of its own.
func TestValueDir(t *testing.T) {
	for i, write := range []func(dir, values string, key []byte, r *record) (func() error, error){writeBadger1, writeBadger2, writeBadger3, writeBadger4} {
		peer := []Peer{Badger1, Badger2, Badger3, Badger4}[i]
		t.Run(string(peer), func(t *testing.T) {
			dir := t.TempDir()
			source, values := filepath.Join(dir, "source"), filepath.Join(dir, "values")
			end, err := write(source, values, nil, badgerPairs)
			if err == nil {
				err = end()
			}
			if err != nil {
				t.Fatal(err)
			}
			before := hashFiles(t, values)
			o := Options{Peer: peer, Source: source, SourceValueDir: values, Store: brock.Options{Dir: filepath.Join(dir, "store")}}
			imports(t, o)
			unchanged(t, values, before)
			wantNewest(t, o.Store.Dir, one(badgerPairs))
		})
	}
}

// TestInUse: a source that another process has open is refused, and read when that process was killed,
// although it has not closed it.
func TestInUse(t *testing.T) {
	for _, f := range fixtures() {
		t.Run(f.name, func(t *testing.T) {
			dir := t.TempDir()
			source := filepath.Join(dir, f.name)
			kill := holding(t, f.name, source)
			defer kill()
			o := Options{Peer: f.peer, Source: source, Store: brock.Options{Dir: filepath.Join(dir, "store")}}
			if _, err := Import(t.Context(), o); !errors.Is(err, ErrInUse) {
				t.Errorf("import of a source in use: %v", err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("the import has left %v, %v", left, err)
			}
			kill()
			imports(t, o)
			wantNewest(t, o.Store.Dir, f.want)
			if badgers[f.peer] != nil {
				o.History, o.Store.Dir = true, o.Store.Dir+"2"
				imports(t, o)
				wantHistory(t, o.Store.Dir, badgerPairs)
			}
		})
	}
}

// TestKilled: an import that is killed at any time goes on, until the store is whole.
func TestKilled(t *testing.T) {
	kills := 40
	if testing.Short() {
		kills = 5
	}
	for _, c := range []struct{ fixture, kind string }{{"badger4", "newest"}, {"badger4", "history"}, {"bbolt", "newest"}, {"pebble2", "newest"}} {
		t.Run(c.fixture+" "+c.kind, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			f := fixtureNamed(t, c.fixture)
			dir := t.TempDir()
			source := f.closed(t, dir)
			before := hashFiles(t, source)
			args := "import|" + string(f.peer) + "|" + source + "|STORE|" + c.kind
			// The first one is not killed: it says how long an import takes.
			began := time.Now()
			if err := child(t, strings.ReplaceAll(args, "STORE", filepath.Join(dir, "whole"))).Run(); err != nil {
				t.Fatal(err)
			}
			takes := time.Since(began)
			killed := 0
			for n := 0; killed < kills; n++ {
				store := filepath.Join(dir, fmt.Sprint("store", n))
				for !importsUntilKilled(t, strings.ReplaceAll(args, "STORE", store), time.Duration(rng.Int64N(int64(takes)))) {
					killed++
					if statError(store) == nil && statError(filepath.Join(store+WorkSuffix, planFile)) != nil {
						break // it was killed behind its last step
					}
				}
				if c.kind == "history" {
					wantHistory(t, store, badgerPairs)
				} else {
					wantNewest(t, store, f.want)
				}
			}
			unchanged(t, source, before)
		})
	}
}

// importsUntilKilled runs an import and kills it after a time, and reports whether it has ended before.
func importsUntilKilled(t *testing.T, args string, after time.Duration) (ended bool) {
	t.Helper()
	cmd := child(t, args)
	started(t, cmd)
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	if err != nil && cmd.ProcessState.ExitCode() >= 0 {
		t.Fatal(err)
	}
	return err == nil
}

func statError(path string) error {
	_, err := os.Stat(path)
	return err
}

// TestInterrupted: an import whose context ends stores what it has read, and goes on.
func TestInterrupted(t *testing.T) {
	for _, history := range []bool{false, true} {
		f := fixtureNamed(t, "badger4")
		dir := t.TempDir()
		source := f.closed(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{Peer: f.peer, Source: source, Store: brock.Options{Dir: filepath.Join(dir, "store")}, History: history, chunkBytes: 100_000}
		o.Progress = func(p Progress) {
			if p.Step == "import" && p.Bytes > 0 {
				cancel()
			}
		}
		if _, err := Import(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatalf("history %v: %v", history, err)
		}
		o.Progress = nil
		s := imports(t, o)
		if !s.Resumed || s.Compared.Pairs <= s.Pairs {
			t.Errorf("history %v: %+v", history, s)
		}
		if history {
			wantHistory(t, o.Store.Dir, badgerPairs)
		} else {
			wantNewest(t, o.Store.Dir, f.want)
		}
	}
}

// TestOtherSource: an unfinished import is not gone on with for another source, for one that has
// changed, or in another way.
func TestOtherSource(t *testing.T) {
	f := fixtureNamed(t, "bbolt")
	dir := t.TempDir()
	source := f.closed(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Peer: f.peer, Source: source, Store: brock.Options{Dir: filepath.Join(dir, "store")}, chunkBytes: 10_000}
	o.Progress = func(p Progress) { cancel() }
	if _, err := Import(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	other := fixtureNamed(t, "leveldb")
	wrong := o
	wrong.Peer, wrong.Source = other.peer, other.closed(t, dir)
	if _, err := Import(t.Context(), wrong); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("another source: %v", err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(source, later, later); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(t.Context(), o); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a source that has changed: %v", err)
	}
}

// TestTampered: what has changed an unfinished import is found at its end.
func TestTampered(t *testing.T) {
	f := fixtureNamed(t, "leveldb")
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Peer: f.peer, Source: f.closed(t, dir), Store: brock.Options{Dir: filepath.Join(dir, "store")}, chunkBytes: 10_000}
	o.Progress = func(p Progress) { cancel() }
	if _, err := Import(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	change(t, o.Store.Dir, "", func(txn *brock.Txn) error { return txn.Set([]byte("\x00"), nil) })
	s, err := Import(t.Context(), o)
	if !errors.Is(err, ErrDiffers) || s == nil || !s.Resumed || s.Compared.Differences != 1 || string(s.Compared.First[0].Key) != "\x00" {
		t.Errorf("%v, %+v", err, s)
	}
}

// TestFullDisk: an import that has no space goes on when there is some.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	rng := rand.New(rand.NewPCG(5, 5))
	r := new(record)
	for i := range 80 {
		r.set(uint64(i+1), fmt.Sprint("key ", i), string(randomBytes(rng, 100_000)), 0, 0)
	}
	end, err := writeBadger4(source, "", nil, r)
	fatal(t, err)
	fatal(t, end())
	for _, history := range []bool{false, true} {
		o := Options{Peer: Badger4, Source: source, Store: brock.Options{Dir: filepath.Join(dir, fmt.Sprint(history))}, History: history, chunkBytes: 500_000}
		o.Store.DiskLimit = 4 << 20
		if _, err := Import(t.Context(), o); !errors.Is(err, brock.ErrNoSpace) {
			t.Errorf("history %v: %v", history, err)
		}
		o.Store.DiskLimit = 0
		imports(t, o)
		wantNewest(t, o.Store.Dir, one(r))
	}
}

// TestNotEmpty: a directory with anything in it is not imported into.
func TestNotEmpty(t *testing.T) {
	f := fixtureNamed(t, "leveldb")
	dir := t.TempDir()
	source := f.closed(t, dir)
	store := filepath.Join(dir, "store")
	for _, name := range []string{"other/file", "values/file"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []brock.Options{{Dir: filepath.Join(dir, "other")}, {Dir: store, ValueDir: filepath.Join(dir, "values")}} {
		if _, err := Import(t.Context(), Options{Peer: f.peer, Source: source, Store: o}); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	imports(t, Options{Peer: f.peer, Source: source, Store: brock.Options{Dir: store}}) // an empty one is good
}

// TestNotASource: what is no store of the peer is an error, and leaves nothing.
func TestNotASource(t *testing.T) {
	for _, peer := range Peers() {
		t.Run(string(peer), func(t *testing.T) {
			dir := t.TempDir()
			store := filepath.Join(dir, "store")
			o := Options{Peer: peer, Source: filepath.Join(dir, "absent"), Store: brock.Options{Dir: store}}
			if _, err := Import(t.Context(), o); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("an absent source: %v", err)
			}
			o.Source = filepath.Join(dir, "garbage")
			garbage := []byte(strings.Repeat("garbage ", 10_000))
			if peer == Bbolt {
				if err := os.WriteFile(o.Source, garbage, 0o600); err != nil {
					t.Fatal(err)
				}
			} else {
				for _, name := range []string{"MANIFEST", "CURRENT", "000001.sst", "000001.vlog", "MANIFEST-000001", "000002.log"} {
					if err := os.MkdirAll(o.Source, 0o700); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(o.Source, name), garbage, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			before := hashFiles(t, o.Source)
			if _, err := Import(t.Context(), o); !errors.Is(err, ErrSource) {
				t.Errorf("garbage: %v", err)
			}
			unchanged(t, o.Source, before)
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("it has left %v, %v", left, err)
			}
		})
	}
}

// TestDamaged: of a source with a byte that has changed, either the import fails or the store is right.
// It is a process of its own, as some libraries end the process. bbolt has no checksums. What is
// damaged in a log of Pebble is for it the end that a crash has left.
func TestDamaged(t *testing.T) {
	flips := 30
	if testing.Short() {
		flips = 4
	}
	for _, f := range fixtures() {
		if f.peer == Bbolt {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			dir := t.TempDir()
			source := f.closed(t, dir)
			files, err := filesOf(source)
			fatal(t, err)
			files = slices.DeleteFunc(files, func(name string) bool {
				return !slices.Contains(immutable, filepath.Ext(name)) && (f.peer == Pebble || !strings.HasSuffix(name, ".log"))
			})
			refused := 0
			for n := range flips {
				name := files[rng.IntN(len(files))]
				content, err := os.ReadFile(name)
				fatal(t, err)
				if len(content) == 0 {
					continue
				}
				at, bit := rng.IntN(len(content)), byte(1)<<rng.IntN(8)
				content[at] ^= bit
				fatal(t, os.WriteFile(name, content, 0o600))
				store := filepath.Join(dir, fmt.Sprint("store", n))
				cmd := child(t, "import|"+string(f.peer)+"|"+source+"|"+store+"|newest")
				cmd.Stderr = nil
				if cmd.Run() != nil {
					refused++
				} else {
					wantNewest(t, store, f.want)
				}
				if t.Failed() {
					t.Fatalf("bit %08b of byte %d of %s", bit, at, name)
				}
				content[at] ^= bit
				fatal(t, os.WriteFile(name, content, 0o600))
			}
			t.Logf("%d of %d refused", refused, flips)
		})
	}
}

// TestOneAtATime: two imports into one store are not at work at once.
func TestOneAtATime(t *testing.T) {
	f := fixtureNamed(t, "bbolt")
	dir := t.TempDir()
	o := Options{Peer: f.peer, Source: f.closed(t, dir), Store: brock.Options{Dir: filepath.Join(dir, "store")}}
	second := o
	asked := false
	o.Progress = func(Progress) {
		if asked {
			return
		}
		asked = true
		if _, err := Import(t.Context(), second); !errors.Is(err, ErrInUse) {
			t.Errorf("a second import: %v", err)
		}
	}
	imports(t, o)
	if !asked {
		t.Error("no progress was shown")
	}
}

// TestWriterRefused: while an import reads it, no process of the source's engine can write to it.
func TestWriterRefused(t *testing.T) {
	f := fixtureNamed(t, "bbolt")
	dir := t.TempDir()
	o := Options{Peer: f.peer, Source: f.closed(t, dir), Store: brock.Options{Dir: filepath.Join(dir, "store")}}
	o.Progress = func(Progress) {
		if db, err := bolt.Open(o.Source, 0o600, &bolt.Options{Timeout: time.Millisecond}); err == nil {
			t.Error("the source could be opened to write")
			_ = db.Close()
		}
	}
	imports(t, o)
}
