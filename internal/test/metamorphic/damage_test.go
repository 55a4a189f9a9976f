package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// victim is a store whose files are damaged.
type victim struct {
	mem    *vfs.Mem
	o      brock.Options
	ledger *ledger
	least  int // commits that must be there, or whose loss must be an error
	tail   int // those of them up to the first sync of the journal's last segment
	killed bool
	files  []string
	// stale holds earlier contents of files.
	stale map[string][]byte
}

// newVictim makes a store with files of all kinds. It closes the store or, if
// killed, leaves it as a dying process does.
func newVictim(t *testing.T, killed bool) *victim {
	v := &victim{mem: vfs.NewMem(), stale: map[string][]byte{}}
	s := newSession(t, v.mem, brock.Options{Tuning: small})
	s.open()
	for i := range 8 {
		s.commit(buffered, put(key(i), text(key(i), 1, 300*i)), put(key(40+i), "old"))
	}
	s.compact()
	for i := range 6 {
		s.commit(buffered, put(key(10+i), text(key(10+i), 1, 100+250*i)), del(key(i)))
	}
	s.flush()
	s.reopen()
	for _, name := range list(t, v.mem) {
		v.stale[name] = content(t, v.mem, name)
	}
	s.commit(synced, put(key(40), "new"), put(key(60), text(key(60), 1, 3000)))
	s.flush()
	for i := range 5 {
		s.commit(synced, put(key(20+i), text(key(20+i), 1, 50+400*i)), put(key(41), text("n", i, 20)))
		if i == 0 {
			v.tail = s.ledger.promise().acked
		}
	}
	v.o, v.ledger = s.o, s.ledger
	v.least = s.ledger.promise().acked
	if killed {
		v.killed = true
		v.least-- // damage to the last frame looks like a torn tail
		v.mem = v.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	}
	s.close()
	v.files = list(t, v.mem)
	return v
}

func list(t *testing.T, m *vfs.Mem) []string {
	names, err := m.List("db")
	must(t, "list", err)
	return slices.DeleteFunc(names, func(s string) bool { return s == "LOCK" })
}

func content(t *testing.T, m *vfs.Mem, name string) []byte {
	f, err := m.Open(path.Join("db", name))
	must(t, "open", err)
	defer f.Close()
	size, err := f.Size()
	must(t, "size", err)
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); n < len(p) {
		must(t, "read", err)
	}
	return p
}

// damage is one way to damage a store. file is "" for damage to several files.
type damage struct {
	what string
	file string
	do   func(t *testing.T, m *vfs.Mem)
}

// replace sets the content of a file, and makes the file if needed.
func replace(t *testing.T, m *vfs.Mem, name string, p []byte) {
	name = path.Join("db", name)
	_ = m.Remove(name)
	f, err := m.Create(name)
	must(t, "create", err)
	_, err = f.WriteAt(p, 0)
	must(t, "write", err)
	must(t, "close", f.Close())
}

func edit(name, what string, fn func(p []byte) []byte) damage {
	return damage{what + " of " + name, name, func(t *testing.T, m *vfs.Mem) { replace(t, m, name, fn(content(t, m, name))) }}
}

func flip(name string, at int, bit int) damage {
	return edit(name, fmt.Sprintf("bit %d flipped at %d", bit, at), func(p []byte) []byte {
		p[at] ^= 1 << bit
		return p
	})
}

// flips flips single bits: in n bytes, and in each stride-th near the beginning and the end of
// each file.
func (v *victim) flips(t *testing.T, n, stride int) (all []damage) {
	rng := draw.Rand(t) // a failure names what it did
	first := rng.IntN(stride)
	total := 0
	for _, name := range v.files {
		total += len(content(t, v.mem, name))
	}
	for _, name := range v.files {
		size := len(content(t, v.mem, name))
		for at := 0; at < size; at++ {
			edge := at < 160 || at >= size-80
			if edge && at%stride == first || rng.IntN(total) < n {
				all = append(all, flip(name, at, rng.IntN(8)))
			}
		}
	}
	return all
}

// coarse returns damages of whole pages and files.
func (v *victim) coarse(t *testing.T) (all []damage) {
	rng := rand.New(rand.NewPCG(3, 4))
	garbage := func(n int) []byte {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		return p
	}
	for _, name := range v.files {
		size := len(content(t, v.mem, name))
		for _, n := range []int{0, 1, size / 3, size - 4096, size - 512, size - 8, size - 1} {
			if n >= 0 && n < size {
				all = append(all, edit(name, fmt.Sprintf("cut to %d", n), func(p []byte) []byte { return p[:n] }))
			}
		}
		for at := 0; at < size; at += 4096 {
			end := min(at+4096, size)
			all = append(all,
				edit(name, fmt.Sprintf("zeros at %d", at), func(p []byte) []byte { clear(p[at:end]); return p }),
				edit(name, fmt.Sprintf("garbage at %d", at), func(p []byte) []byte { copy(p[at:end], garbage(4096)); return p }),
				edit(name, fmt.Sprintf("first page at %d", at), func(p []byte) []byte { copy(p[at:end], slices.Clone(p[:min(4096, len(p))])); return p }))
		}
		all = append(all,
			edit(name, "garbage behind the end", func(p []byte) []byte { return append(p, garbage(5000)...) }),
			edit(name, "zeros behind the end", func(p []byte) []byte { return append(p, make([]byte, 5000)...) }),
			edit(name, "itself behind the end", func(p []byte) []byte { return append(p, p...) }),
			damage{"removal of " + name, name, func(t *testing.T, m *vfs.Mem) { must(t, "remove", m.Remove(path.Join("db", name))) }})
		if old, ok := v.stale[name]; ok {
			all = append(all, edit(name, "return of an old state", func([]byte) []byte { return old }))
		}
		for _, other := range v.files {
			if other == name {
				continue
			}
			all = append(all, edit(name, "content of "+other, func([]byte) []byte { return content(t, v.mem, other) }))
			if path.Ext(other) == path.Ext(name) && other > name {
				all = append(all, damage{"swap of " + name + " and " + other, "", func(t *testing.T, m *vfs.Mem) {
					a, b := content(t, m, name), content(t, m, other)
					replace(t, m, name, b)
					replace(t, m, other, a)
				}})
			}
		}
	}
	return all
}

func TestDamage(t *testing.T) {
	for _, killed := range []bool{false, true} {
		name := map[bool]string{false: "closed", true: "killed"}[killed]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t, killed)
			n, stride := 1_000, 3
			switch {
			case *everyFlag:
				n, stride = 12_000, 1
			case testing.Short():
				n, stride = 300, 7
			}
			all := append(v.coarse(t), v.flips(t, n, stride)...)
			counts := map[string]int{}
			for i, d := range all {
				if raced && i%5 != 0 {
					continue
				}
				if i%100 == 0 && deadline.Near(t) {
					break
				}
				b := &beholder{t: t, v: v, d: d, heavy: i%5 == 0, noMap: i%3 == 0}
				counts[b.behold()]++
				if t.Failed() {
					return
				}
			}
			t.Logf("%d damages of %v: %v", len(all), v.files, counts)
		})
	}
}

// beholder opens one damaged store and checks what it shows.
type beholder struct {
	t     *testing.T
	v     *victim
	d     damage
	heavy bool // compact too
	noMap bool
	also  map[string]string // what was written besides
	maybe bool              // what was written besides may be missing
	mixed bool              // damages that may together show an earlier state
	keys  bool              // damages that the keys of the store may not fit
}

// withoutMap returns m as a file system that can't map files.
func withoutMap(m vfs.FS) vfs.FS {
	fs := faultfs.New(m, faultfs.Options{})
	fs.Inject(faultfs.Fault{Kinds: faultfs.Map, Times: faultfs.Always, Err: errors.ErrUnsupported})
	return fs
}

func (b *beholder) errorf(format string, args ...any) {
	b.t.Helper()
	b.t.Errorf("%s: %s", b.d.what, fmt.Sprintf(format, args...))
}

// behold opens and reads the store, and returns the outcome in one word.
func (b *beholder) behold() (outcome string) {
	defer deadline.Watch(b.t, b.d.what+": the store hangs")()
	defer func() {
		if p := recover(); p != nil {
			b.errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	// What tests beside this one allocate meanwhile is counted too, so that the least of
	// some attempts counts.
	least := uint64(math.MaxUint64)
	for range 4 {
		m := b.v.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		b.d.do(b.t, m)
		size := 0
		for _, name := range list(b.t, m) {
			size += len(content(b.t, m, name))
		}
		before := allocated()
		if b.heavy {
			b.look(m.CrashClone(vfs.CrashOptions{Mode: vfs.All}), brock.ReadOnly)
		}
		outcome = b.look(m, brock.ReadWrite)
		if least = min(least, allocated()-before); least <= uint64(64<<20+20*size) {
			return outcome
		}
	}
	b.errorf("%d bytes were allocated", least)
	return outcome
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func (b *beholder) look(m *vfs.Mem, mode brock.OpenMode) string {
	o := b.v.o
	o.FS, o.Mode = m, mode
	if b.noMap {
		o.FS = withoutMap(m)
	}
	db, err := brock.Open(o)
	if err != nil {
		b.typed("open", err, !b.v.killed)
		b.removal(err)
		return "refused"
	}
	b.removal(nil)
	clean := b.read(db)
	verified := db.Verify(context.Background(), nil)
	switch {
	case verified != nil:
		b.typed("verify", verified, false)
	case !clean:
		b.errorf("a read found damage, Verify did not")
	}
	if b.heavy && mode == brock.ReadWrite {
		if err := db.Compact(context.Background()); err != nil {
			b.typed("compact", err, false)
		}
		b.read(db)
	}
	if err := db.Close(); err != nil {
		b.typed("close", err, false)
	}
	if b.heavy && mode == brock.ReadWrite {
		if db, err = brock.Open(o); err != nil {
			b.typed("open again", err, false)
		} else {
			b.read(db)
			_ = db.Close()
		}
	}
	switch {
	case !clean:
		return "found by reads"
	case verified != nil:
		return "found by Verify"
	}
	return "harmless"
}

// typed checks that an error is a typed one. If strict, it must name the damaged file.
func (b *beholder) typed(what string, err error, strict bool) {
	b.t.Helper()
	var c *brock.CorruptionError
	switch {
	case errors.As(err, &c):
		if c.File == "" || !errors.Is(err, brock.ErrCorrupt) {
			b.errorf("%s: %v: names no file", what, err)
		}
		if strict && strings.Contains(b.d.what, "bit ") && c.File != b.d.file {
			b.errorf("%s: %v: blamed on %s", what, err, c.File)
		}
	case errors.Is(err, brock.ErrCorrupt), errors.Is(err, brock.ErrForeign), errors.Is(err, brock.ErrFormat):
		if strict && strings.Contains(b.d.what, "bit ") && !errors.Is(err, brock.ErrCorrupt) {
			b.errorf("%s: %v: a flipped bit is damage", what, err)
		}
	case b.mixed && errors.Is(err, brock.ErrNotExist): // with SUPER and more
	case errors.Is(err, brock.ErrKey) && (b.keys || strings.Contains(b.d.what, "KEYS")):
	default:
		b.errorf("%s: %v: no error of damage", what, err)
	}
}

// removal checks that Open names the journal file that was removed.
func (b *beholder) removal(err error) {
	b.t.Helper()
	if b.d.what != "removal of "+b.d.file || path.Ext(b.d.file) != ".log" {
		return
	}
	var c *brock.CorruptionError
	if !errors.As(err, &c) || c.File != b.d.file {
		b.errorf("open: %v", err)
	}
}

// read reads everything, by every kind of read. It reports whether no read failed.
func (b *beholder) read(db *brock.DB) (clean bool) {
	if b.mixed {
		return b.readMixed(db)
	}
	want, ok := b.expected(db)
	if !ok {
		return false
	}
	clean = true
	bad := func(what string, err error) {
		b.typed(what, err, false)
		clean = false
	}
	err := db.View(func(txn *brock.Txn) error {
		for k, v := range want {
			item, err := txn.Get([]byte(k))
			if err != nil {
				bad("get "+k, err)
				continue
			}
			got, err := item.Value()
			if err != nil {
				bad("value of "+k, err)
			} else if string(got) != v {
				b.errorf("get %s: %s, want %s", k, brief(string(got)), brief(v))
			}
		}
		for i := range 70 {
			if _, there := want[key(i)]; there {
				continue
			}
			if item, err := txn.Get([]byte(key(i))); err == nil {
				b.errorf("get %s finds version %d, should find nothing", key(i), item.Version())
			} else if !errors.Is(err, brock.ErrKeyNotFound) {
				bad("get of an absent key", err)
			}
		}
		for _, reverse := range []bool{false, true} {
			left := len(want)
			for item, err := range txn.Items(brock.IteratorOptions{Reverse: reverse}) {
				if err != nil {
					bad("iterate", err)
					left = 0
					break
				}
				left--
				got, err := item.Value()
				if v, there := want[string(item.Key())]; err != nil {
					bad("value of an iterator", err)
				} else if !there || v != string(got) {
					b.errorf("an iterator finds %s=%s", item.Key(), brief(string(got)))
				}
			}
			if left != 0 {
				b.errorf("an iterator misses %d keys", left)
			}
		}
		return nil
	})
	if err != nil {
		b.errorf("view: %v", err)
	}
	return clean
}

// readMixed reads everything, and wants values that their keys have had once.
func (b *beholder) readMixed(db *brock.DB) (clean bool) {
	clean = true
	check := func(k string, v []byte, err error) {
		switch {
		case errors.Is(err, brock.ErrKeyNotFound):
		case err != nil:
			b.typed("read of "+k, err, false)
			clean = false
		case !b.v.ledger.ever(k, string(v)):
			b.errorf("%s has %s", k, brief(string(v)))
		}
	}
	for i := range 70 {
		v, err := db.Get([]byte(key(i)))
		check(key(i), v, err)
	}
	err := db.View(func(txn *brock.Txn) error {
		for item, err := range txn.Items(brock.IteratorOptions{}) {
			if err != nil {
				check("an iterator", nil, err)
				break
			}
			v, err := item.Value()
			check(string(item.Key()), v, err)
		}
		return nil
	})
	if err != nil {
		b.errorf("view: %v", err)
	}
	return clean
}

// expected returns what the store must hold. After a kill the last commit may be
// lost: the marker says which commit is the last one.
func (b *beholder) expected(db *brock.DB) (map[string]string, bool) {
	p := b.v.ledger.promise()
	marked, err := db.Get([]byte(marker))
	least := b.v.least
	switch {
	case errors.Is(err, brock.ErrKeyNotFound):
		b.errorf("the store is empty")
		return nil, false
	case err != nil && least < p.acked:
		b.typed("get", err, false)
		return nil, false
	case err != nil:
		marked = []byte(strconv.Itoa(p.acked)) // nothing else is allowed
	}
	if b.v.killed && !strings.HasPrefix(b.d.what, "bit") {
		least = b.v.tail // nothing else says how long the last segment was
	}
	k, err := commitOf(map[string]string{marker: string(marked)})
	if err != nil || k < least || k > p.acked {
		b.errorf("the store goes to commit %d, %v, want %d to %d", k, err, least, p.acked)
		return nil, false
	}
	want := b.v.ledger.state(k, p.now)
	for key, value := range b.also {
		if _, err := db.Get([]byte(key)); !b.maybe || !errors.Is(err, brock.ErrKeyNotFound) {
			want[key] = value
		}
	}
	return want, true
}
