package metamorphic

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

var keyspaceSeed = flag.Uint64("keyspaceseed", 0, "the one program of keyspaces to run; 0 = many")

// The model of a store with keyspaces: the content of each by name. The default one
// is "".
type shelves map[string]map[string]string

func (s shelves) clone() shelves {
	c := make(shelves, len(s))
	for name, pairs := range s {
		c[name] = maps.Clone(pairs)
	}
	return c
}

func (s shelves) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "[%s]", name)
		for _, k := range slices.Sorted(maps.Keys(s[name])) {
			fmt.Fprintf(&b, " %q=%s", k, brief(s[name][k]))
		}
	}
	return b.String()
}

// readShelves reads all that one transaction sees, in both directions.
func readShelves(txn *brock.Txn, keyspaces []*brock.Keyspace) (shelves, error) {
	s := shelves{}
	for _, ks := range append([]*brock.Keyspace{nil}, keyspaces...) {
		name, pairs, back := "", map[string]string{}, 0
		if ks != nil {
			name = ks.Name()
		}
		for item, err := range txn.In(ks).All() {
			if err != nil {
				return nil, err
			}
			v, err := item.Value()
			if err != nil {
				return nil, err
			}
			pairs[string(item.Key())] = string(v)
		}
		for item, err := range txn.In(ks).Items(brock.IteratorOptions{Reverse: true}) {
			if err != nil {
				return nil, err
			}
			if _, found := pairs[string(item.Key())]; found {
				back++
			}
		}
		if back != len(pairs) {
			return nil, fmt.Errorf("%d keys of %q forward, %d backward", len(pairs), name, back)
		}
		s[name] = pairs
	}
	return s, nil
}

func readStore(db *brock.DB) (s shelves, err error) {
	err = db.View(func(txn *brock.Txn) error {
		s, err = readShelves(txn, slices.Collect(db.Keyspaces()))
		return err
	})
	return s, err
}

// keyspaceProgram runs random operations on a store and the model.
type keyspaceProgram struct {
	t      *testing.T
	rng    *rand.Rand
	seed   uint64
	mem    *vfs.Mem
	o      brock.Options
	db     *brock.DB
	now    shelves
	past   []shelves // states after each commit since the last safe one, which comes first
	read   []*shelvesReader
	writes []*shelvesWriter
	works  works
	n      int
	log    []string
}

type shelvesReader struct {
	txn       *brock.Txn
	keyspaces []*brock.Keyspace
	want      shelves
}

// shelvesWriter is an open update of one key in some keyspaces.
type shelvesWriter struct {
	txn   *brock.Txn
	wrote []*brock.Keyspace
	value string
}

func (p *keyspaceProgram) fatalf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\nreplay: go test ./internal/test/metamorphic -run TestKeyspacePrograms -keyspaceseed %d\nlast operations:\n  %s",
		fmt.Sprintf(format, args...), p.seed, strings.Join(p.log[max(0, len(p.log)-20):], "\n  "))
}

func (p *keyspaceProgram) must(what string, err error) {
	p.t.Helper()
	if err != nil {
		p.fatalf("%s: %v", what, err)
	}
}

func (p *keyspaceProgram) note(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

func (p *keyspaceProgram) open() {
	p.o.FS = p.mem
	db, err := brock.Open(p.o)
	p.must("open", err)
	p.db = db
}

// keyspace returns one of a few keyspaces, and makes it if needed.
func (p *keyspaceProgram) keyspace() *brock.Keyspace {
	name := pick(p.rng, "", "a", "a", "b", "c", "\xff", strings.Repeat("long", 60))
	if name == "" {
		return nil
	}
	var o []brock.KeyspaceOptions
	if p.rng.IntN(8) == 0 {
		o = append(o, brock.KeyspaceOptions{Compression: pick(p.rng, brock.NoCompression, brock.S2, brock.Zstd), CompressAbove: 100,
			ValueThreshold: pick(p.rng, -1, 64, 512),
			Versions:       brock.Retention{Versions: p.rng.IntN(3), Age: time.Duration(p.rng.IntN(2)) * time.Hour}})
	}
	ks, err := p.db.Keyspace(name, o...)
	p.must("keyspace", err)
	if p.now[name] == nil {
		p.note("make %.5q", name)
		p.now[name] = map[string]string{}
		for _, s := range p.past {
			s[name] = map[string]string{} // to make a keyspace is durable at once
		}
	}
	return ks
}

func nameOf(ks *brock.Keyspace) string {
	if ks == nil {
		return ""
	}
	return ks.Name()
}

func (p *keyspaceProgram) key() string {
	return pick(p.rng, "\x00", "k", "l", "m", "\xff", "\xff\xff") + fmt.Sprint(p.rng.IntN(12))
}

// committed notes that a commit has brought the store to the state of the model.
func (p *keyspaceProgram) committed(safe bool) {
	if safe {
		p.past = nil
	}
	p.past = append(p.past, p.now.clone())
}

func (p *keyspaceProgram) safe() { p.past = []shelves{p.now.clone()} }

// commit writes to several keyspaces at once, in memory or by way of files.
func (p *keyspaceProgram) commit() {
	synced := p.rng.IntN(3) == 0
	o := brock.TxnOptions{Update: true, Durability: brock.Buffered, MaxMemory: pick[int64](p.rng, 0, 0, 0, 1, 1500)}
	if synced {
		o.Durability = brock.Synced
	}
	p.note("transaction, memory %d", o.MaxMemory)
	spills := p.db.Metrics().Tree.Spills
	txn, err := p.db.Begin(context.Background(), o)
	p.must("begin", err)
	defer txn.Discard()
	wrote := false
	for range 1 + p.rng.IntN(12) {
		ks, k := p.keyspace(), p.key()
		pairs := p.now[nameOf(ks)]
		p.n++
		if p.rng.IntN(8) == 0 {
			wrote = p.deleteRanges(txn, ks) || wrote
			continue
		}
		wrote = true
		if p.rng.IntN(4) == 0 {
			p.note("delete %.5q %q", nameOf(ks), k)
			p.must("delete", txn.In(ks).Delete([]byte(k)))
			delete(pairs, k)
			continue
		}
		v := text(k, p.n, pick(p.rng, 0, 10, 100, 600, 3000))
		if p.rng.IntN(2) == 0 {
			v = strings.Repeat(v[:min(len(v), 20)], len(v)/20)
		}
		p.note("set %.5q %q", nameOf(ks), k)
		p.must("set", txn.In(ks).Set([]byte(k), []byte(v)))
		pairs[k] = v
	}
	if p.rng.IntN(4) == 0 { // the transaction must see its own writes
		got, err := readShelves(txn, slices.Collect(p.db.Keyspaces()))
		p.must("read in the transaction", err)
		if got.String() != p.now.String() {
			p.fatalf("the transaction sees\n%v\nwant\n%v", got, p.now)
		}
	}
	p.must("commit", txn.Commit())
	p.committed(synced && wrote || p.db.Metrics().Tree.Spills > spills)
}

// deleteRanges deletes some ranges: of one keyspace, many with one lower bound, or from the middle of
// each keyspace to its end and from the beginning of the next one. It reports whether it wrote.
func (p *keyspaceProgram) deleteRanges(txn *brock.Txn, ks *brock.Keyspace) (wrote bool) {
	switch p.rng.IntN(3) {
	case 0:
		lo := p.key()
		for range 1 + p.rng.IntN(3) {
			wrote = p.deleteRange(txn, ks, lo, p.key()) || wrote
		}
	case 1:
		for ks := range p.db.Keyspaces() {
			p.deleteRange(txn, ks, p.key(), "")
			p.deleteRange(txn, ks, "", p.key())
			wrote = true
		}
	default:
		return p.deleteRange(txn, ks, p.key(), p.key())
	}
	return wrote
}

// deleteRange deletes [lo, hi); "" is no bound.
func (p *keyspaceProgram) deleteRange(txn *brock.Txn, ks *brock.Keyspace, lo, hi string) bool {
	p.note("delete %.5q %q to %q", nameOf(ks), lo, hi)
	var upper []byte
	if hi != "" {
		upper = []byte(hi)
	}
	p.must("delete range", txn.In(ks).DeleteRange([]byte(lo), upper))
	maps.DeleteFunc(p.now[nameOf(ks)], func(k, _ string) bool { return lo <= k && (hi == "" || k < hi) })
	return hi == "" || lo < hi
}

// copies makes copies of the store in all ways there are: each has the same pairs, and no damage.
func (p *keyspaceProgram) copies() {
	p.note("copies")
	disk := vfs.NewMem()
	to := func(name string) brock.Options { return brock.Options{Dir: "/" + name, FS: disk, Keys: p.o.Keys} }
	var stream bytes.Buffer
	_, err := p.db.Backup(context.Background(), &stream, brock.BackupOptions{})
	p.must("backup", err)
	_, err = brock.Restore(context.Background(), &stream, to("restored"))
	p.must("restore", err)
	checkpoint := to(fmt.Sprintf("checkpoint %d", len(p.log))) // after a crash those before may be back
	checkpoint.FS = p.mem
	p.must("checkpoint", p.db.Checkpoint(context.Background(), checkpoint.Dir))
	from := p.o
	from.FS = p.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	salvaged := to("salvaged")
	_, err = brock.Salvage(context.Background(), from, salvaged, func(c *brock.CorruptionError) { p.note("salvage: %v", c) })
	p.must("salvage", err)
	follower := p.o
	follower.Mode, follower.FS = brock.Follow, p.mem
	for _, o := range []brock.Options{to("restored"), checkpoint, salvaged, follower} {
		db, err := brock.Open(o)
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		p.must("open "+o.Dir, err)
		if o.Mode == brock.Follow {
			_, err := db.Refresh(context.Background())
			p.must("refresh", err)
		}
		for range 2 {
			got, err := readStore(db)
			p.must("read "+o.Dir, err)
			if got.String() != p.now.String() {
				p.fatalf("%s, mode %d, has\n%v\nwant\n%v", o.Dir, o.Mode, got, p.now)
			}
			if o.Mode != brock.Follow {
				p.must("compact "+o.Dir, db.Compact(context.Background()))
			}
		}
		p.must("close "+o.Dir, db.Close())
	}
	names, err := p.mem.List(checkpoint.Dir)
	p.must("list", err)
	for _, name := range names {
		p.must("remove", p.mem.Remove(filepath.Join(checkpoint.Dir, name)))
	}
}

// empty clears one keyspace, or all.
func (p *keyspaceProgram) empty() {
	ks := p.keyspace()
	if ks == nil {
		p.note("drop all")
		p.must("drop all", p.db.DropAll(context.Background()))
		for _, pairs := range p.now {
			clear(pairs)
		}
	} else {
		p.note("clear %.5q", ks.Name())
		p.must("clear", ks.Clear(context.Background()))
		clear(p.now[ks.Name()])
	}
	p.committed(true)
}

func (p *keyspaceProgram) drop() {
	ks := p.keyspace()
	if ks == nil {
		return
	}
	p.note("drop %.5q", ks.Name())
	p.must("drop", ks.Drop(context.Background()))
	delete(p.now, ks.Name())
	p.safe()
	if _, err := ks.Get([]byte("k")); !errors.Is(err, brock.ErrKeyspaceNotFound) {
		p.fatalf("get in a dropped keyspace: %v", err)
	}
	for i := 0; i < len(p.writes); i++ {
		w := p.writes[i]
		if !slices.Contains(w.wrote, ks) {
			continue
		}
		if err := w.txn.Commit(); !errors.Is(err, brock.ErrKeyspaceNotFound) {
			p.fatalf("commit to a dropped keyspace: %v", err)
		}
		p.writes = slices.Delete(p.writes, i, i+1)
		i--
	}
}

// begin opens a reader, or an update that is committed later.
func (p *keyspaceProgram) begin() {
	if p.rng.IntN(2) == 0 && len(p.read) < 3 {
		txn, err := p.db.Begin(context.Background(), brock.TxnOptions{})
		p.must("begin", err)
		p.read = append(p.read, &shelvesReader{txn, slices.Collect(p.db.Keyspaces()), p.now.clone()})
		return
	}
	if len(p.writes) == 3 {
		return
	}
	txn, err := p.db.Begin(context.Background(), brock.TxnOptions{Update: true, MaxMemory: pick[int64](p.rng, 0, 1)})
	p.must("begin", err)
	w := &shelvesWriter{txn: txn, value: fmt.Sprint(len(p.log))}
	for range 1 + p.rng.IntN(3) {
		ks := p.keyspace()
		p.must("set", txn.In(ks).Set([]byte("by a writer"), []byte(w.value)))
		w.wrote = append(w.wrote, ks)
	}
	p.writes = append(p.writes, w)
}

func (p *keyspaceProgram) end() {
	switch {
	case len(p.read) > 0 && p.rng.IntN(2) == 0:
		p.check("reader", p.read[0])
		p.read[0].txn.Discard()
		p.read = p.read[1:]
	case len(p.writes) > 0:
		w := p.writes[0]
		p.writes = p.writes[1:]
		p.must("commit", w.txn.Commit())
		p.note("a writer's commit")
		for _, ks := range w.wrote {
			p.now[nameOf(ks)]["by a writer"] = w.value
		}
		p.committed(true)
	}
}

func (p *keyspaceProgram) check(what string, r *shelvesReader) {
	p.t.Helper()
	got, err := readShelves(r.txn, r.keyspaces)
	p.must(what, err)
	if got.String() != r.want.String() {
		p.fatalf("%s finds\n%v\nwant\n%v", what, got, r.want)
	}
}

func (p *keyspaceProgram) checkAll() {
	p.t.Helper()
	got, err := readStore(p.db)
	p.must("read", err)
	if got.String() != p.now.String() {
		p.fatalf("the store has\n%v\nwant\n%v", got, p.now)
	}
	for _, r := range p.read {
		p.check("an open reader", r)
	}
}

func (p *keyspaceProgram) endAll() {
	for _, r := range p.read {
		r.txn.Discard()
	}
	for _, w := range p.writes {
		w.txn.Discard()
	}
	p.read, p.writes = nil, nil
}

func (p *keyspaceProgram) reopen() {
	p.note("reopen")
	p.endAll()
	p.must("close", p.db.Close())
	p.open()
	p.safe()
	p.checkAll()
}

func (p *keyspaceProgram) crash() {
	mode, seed := vfs.CrashMode(p.rng.IntN(4)), p.rng.Uint64()
	p.note("crash %s", modeName(mode))
	p.endAll()
	left := p.mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: seed})
	p.must("close", p.db.Close())
	p.mem = left
	p.open()
	got, err := readStore(p.db)
	p.must("read after a crash", err)
	at := slices.IndexFunc(p.past, func(s shelves) bool { return s.String() == got.String() })
	if at < 0 || mode == vfs.All && got.String() != p.now.String() {
		p.fatalf("after a crash, %d commits after the last that is safe, the store has\n%v\nmost are\n%v", len(p.past)-1, got, p.now)
	}
	p.now = got
	p.safe()
	p.must("verify", p.db.Verify(context.Background(), nil))
}

func (p *keyspaceProgram) run(ops int) {
	p.open()
	p.now = shelves{"": {}}
	p.safe()
	for range ops {
		switch n := p.rng.IntN(41); {
		case n < 18:
			p.commit()
		case n == 40:
			p.empty()
		case n < 22:
			p.drop()
		case n < 27:
			p.begin()
		case n < 31:
			p.end()
		case n < 33:
			p.note("flush")
			p.must("flush", p.db.Flush(context.Background()))
			p.safe()
		case n < 35:
			p.note("compact")
			p.must("compact", p.db.Compact(context.Background()))
			p.safe()
		case n == 35:
			p.reopen()
		case n < 38:
			p.crash()
		case n == 38 && p.rng.IntN(3) == 0:
			p.copies()
		default:
			p.checkAll()
		}
	}
	p.endAll()
	if i := p.o.Maintenance.IdleAfter; p.seed%4 == 0 && i > 0 {
		if restless := p.works.rest(p.t, i, true); restless != "" {
			p.fatalf("work goes on and on, %d pieces so far: %v\n%s", p.works.Load(), p.db.Metrics(), restless)
		}
	}
	p.must("compact", p.db.Compact(context.Background()))
	p.checkAll()
	p.must("verify", p.db.Verify(context.Background(), nil))
	p.must("close", p.db.Close())
}

// TestKeyspacePrograms makes, writes to and drops keyspaces at random, with older
// readers and writers open, and over flushes, compactions and crashes.
func TestKeyspacePrograms(t *testing.T) {
	n := 30
	switch {
	case *keyspaceSeed != 0:
		n = 1
	case testing.Short() || raced:
		n = 12
	}
	for i := 0; i < n && !deadline.Near(t); i++ {
		seed := *keyspaceSeed
		if seed == 0 {
			seed = draw.Seed(t)
		}
		rng := rand.New(rand.NewPCG(seed, 0x6b657973))
		p := &keyspaceProgram{t: t, rng: rng, seed: seed, mem: vfs.NewMem(), o: brock.Options{
			Dir: "db", Keys: keysOf(seed), Tuning: brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10, RunFileSize: pick[int64](rng, 64<<10, 0)},
			KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: pick(rng, -1, 64, 0)},
			Maintenance:      brock.Maintenance{IdleAfter: pick(rng, 0, time.Millisecond)},
		}}
		p.works.count(&p.o.Events)
		p.run(150)
	}
}

// After a crash before any file operation, each step on keyspaces is there as a
// whole or not at all, all steps before it are there, and a new keyspace is empty.
func TestKeyspacesCrashAtEveryOperation(t *testing.T) {
	type point struct {
		fs   *vfs.Mem
		want [2]string
		what string
	}
	var mu sync.Mutex
	var points []point
	states := [2]string{"", shelves{"": {}}.String()} // before and after the step under way
	doing := "open"
	mem := vfs.NewMem()
	take := func(where string, n int) {
		mu.Lock()
		want, what := states, doing
		mu.Unlock()
		for _, c := range []vfs.CrashOptions{{Mode: vfs.Lost}, {Mode: vfs.All}, {Mode: vfs.Prefix, Seed: uint64(n)}, {Mode: vfs.Chaos, Seed: uint64(n)}} {
			clone := mem.CrashClone(c)
			mu.Lock()
			want[1] = states[1] // the next step may have begun
			points = append(points, point{clone, want, fmt.Sprintf("%s, crash %s before %s", what, modeName(c.Mode), where)})
			mu.Unlock()
		}
	}
	o := brock.Options{Dir: "db", Keys: keysFor(t), Tuning: brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10}, FS: faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		if op.Kind&(faultfs.Changes|faultfs.Syncs) != 0 {
			take(op.String(), op.N)
		}
	}})}
	db, err := brock.Open(o)
	must(t, "open", err)
	now := shelves{"": {}}
	step := func(what string, do func() error, change func()) {
		change()
		mu.Lock()
		states[0], states[1], doing = states[1], now.String(), what
		mu.Unlock()
		must(t, what, do())
	}
	work := func(what string, do func(context.Context) error) {
		step(what, func() error { return do(context.Background()) }, func() {})
	}
	keyspaces := map[string]*brock.Keyspace{}
	create := func(name string) {
		step("make "+name, func() (err error) { keyspaces[name], err = db.Keyspace(name); return err }, func() { now[name] = map[string]string{} })
	}
	write := func(i int) {
		step("write", func() error {
			return db.Update(func(txn *brock.Txn) error {
				for name := range now {
					for j := range 3 {
						if err := txn.In(keyspaces[name]).Set(fmt.Appendf(nil, "%s %d", name, j), []byte(text(name, i, 700*j))); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}, func() {
			for name := range now {
				for j := range 3 {
					now[name][fmt.Sprintf("%s %d", name, j)] = text(name, i, 700*j)
				}
			}
		})
	}
	drop := func(name string) {
		ks := keyspaces[name]
		step("drop "+name, func() error { return ks.Drop(context.Background()) }, func() { delete(now, name); delete(keyspaces, name) })
	}
	create("a")
	write(1)
	create("b")
	write(2)
	work("flush", db.Flush)
	write(3)
	drop("a")
	create("a")
	write(4)
	work("compact", db.Compact)
	step("options", func() error { return keyspaces["b"].SetOptions(brock.KeyspaceOptions{ValueThreshold: 64}) }, func() {})
	write(5)
	drop("b")
	drop("a")
	work("flush", db.Flush)
	work("compact", db.Compact)
	create("b")
	write(6)
	step("close", db.Close, func() {})
	take("the end", 1<<20)
	o.FS = nil
	mu.Lock()
	defer mu.Unlock()
	wanted := crashesOf(t, testing.Short())
	for i, p := range points {
		if !wanted(i) {
			continue
		}
		o.FS = p.fs
		db, err := brock.Open(o)
		must(t, p.what, err)
		got, err := readStore(db)
		must(t, p.what, err)
		if got.String() != p.want[0] && got.String() != p.want[1] {
			t.Fatalf("%s: the store has\n%v\nwant\n%s\nor\n%s", p.what, got, p.want[0], p.want[1])
		}
		must(t, p.what, db.Verify(context.Background(), nil))
		for _, name := range []string{"a", "b"} {
			if _, found := got[name]; found {
				continue
			}
			ks, err := db.Keyspace(name)
			must(t, p.what, err)
			must(t, p.what, ks.Set([]byte("new"), nil))
			got[name] = map[string]string{"new": ""}
		}
		for _, work := range []func(context.Context) error{nil, db.Flush, db.Compact} {
			if work != nil {
				must(t, p.what, work(context.Background()))
			}
			again, err := readStore(db)
			must(t, p.what, err)
			if again.String() != got.String() {
				t.Fatalf("%s: after more work the store has\n%v\nwant\n%v", p.what, again, got)
			}
		}
		must(t, p.what, db.Close())
	}
	t.Logf("%d crash states", len(points))
}
