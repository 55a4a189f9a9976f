package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"runtime/debug"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/vfs"
)

// place is where an open store meets damage.
type place int

const (
	everywhere place = iota // on the medium, and in memory that was mapped before
	inMemory                // the medium keeps the right bytes
	onMedium                // what was mapped before stays in memory
	unmapped                // on the medium, as files are not mapped
	places
)

func (p place) String() string {
	return [...]string{"everywhere", "in memory", "on the medium", "of files that are not mapped"}[p]
}

// hurts are the kinds of damage to p, the bytes of a file with a page at [at, end). All
// keep the length but cut, after which the bytes are zero where they are still mapped.
var hurts = []struct {
	name string
	do   func(rng *rand.Rand, p []byte, at, end int)
}{
	{"flip", func(rng *rand.Rand, p []byte, at, end int) { p[at+rng.IntN(end-at)] ^= 1 << rng.IntN(8) }},
	{"zeros", func(_ *rand.Rand, p []byte, at, end int) { clear(p[at:end]) }},
	{"garbage", func(rng *rand.Rand, p []byte, at, end int) {
		for i := at; i < end; i++ {
			p[i] = byte(rng.Uint32())
		}
	}},
	{"cut", func(_ *rand.Rand, p []byte, at, _ int) { clear(p[at:]) }},
	{"another page", func(rng *rand.Rand, p []byte, at, end int) {
		copy(p[at:end], p[rng.IntN((len(p)+4095)/4096)*4096:])
	}},
	{"wide flips", func(rng *rand.Rand, p []byte, _, _ int) {
		for i := rng.IntN(300); i < len(p); i += 300 {
			p[i] ^= 1 << rng.IntN(8)
		}
	}},
}

// ground is an open store, and the damage that it meets.
type ground struct {
	*beholder
	mem   *vfs.Mem
	fs    *faultfs.FS
	db    *brock.DB
	where place
	rng   *rand.Rand
}

// Damage to any file of an open store, after everything was read, gives the right data
// or ErrCorrupt: at once with Options.VerifyReads, and always after reopening. No work
// on the open store hides it, or writes it to another file with a new checksum.
func TestDamageUnderOpenStores(t *testing.T) {
	rounds := 2
	switch {
	case *everyFlag:
		rounds = 12
	case testing.Short():
		rounds = 1
	}
	for where := range places {
		t.Run(where.String(), func(t *testing.T) {
			t.Parallel()
			v := newVictim(t, true)
			counts, cases := map[string]int{}, 0
			for n := range rounds * len(hurts) * (len(v.files) + 1) {
				if raced && n%5 != 0 {
					continue
				}
				if t.Failed() || n%20 == 0 && deadline.Near(t) {
					break
				}
				cases++
				counts[openGround(t, v, where, n).suffer(n)]++
			}
			t.Logf("%d cases: %v", cases, counts)
		})
	}
}

// openGround opens a copy of the store of v.
func openGround(t *testing.T, v *victim, where place, n int) *ground {
	g := &ground{where: where, rng: rand.New(rand.NewPCG(uint64(n), uint64(where))), mem: v.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})}
	c := *v // with options and a state of its own
	g.fs = faultfs.New(g.mem, faultfs.Options{OwnMaps: true})
	if where == unmapped {
		g.fs.Inject(faultfs.Fault{Kinds: faultfs.Map, Times: faultfs.Always, Err: errors.ErrUnsupported})
	}
	c.o.FS, c.o.VerifyReads = g.fs, g.rng.IntN(2) == 0
	c.o.Maintenance.IdleAfter, c.o.Maintenance.NoClustering = time.Hour, true
	c.least, c.killed = c.ledger.promise().acked, false // nothing was damaged before Open
	g.beholder = &beholder{t: t, v: &c, d: damage{what: "none"}}
	var err error
	g.db, err = brock.Open(c.o)
	must(t, "open", err)
	if !g.read(g.db) {
		t.Fatal("a sound store can't be read")
	}
	return g
}

// suffer damages the store in the n-th way, works with it, and opens it again. It returns
// the outcome in one word.
func (g *ground) suffer(n int) (outcome string) {
	defer deadline.Watch(g.t, g.d.what+": the store hangs")()
	defer func() {
		if p := recover(); p != nil {
			g.errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	g.hurt(n)
	g.readOpen()
	g.work(n)
	g.readOpen()
	if err := g.db.Verify(context.Background(), nil); err != nil {
		g.typed("verify", err, false)
	}
	if err := g.db.Close(); err != nil {
		g.typed("close", err, false)
		g.maybe = true
		if path.Ext(g.d.file) == ".log" { // its damaged end may pass for a torn tail
			g.v.killed, g.v.least = true, g.v.tail
		}
	}
	return g.after()
}

// hurt damages the store.
func (g *ground) hurt(n int) {
	files := list(g.t, g.mem)
	name, kind := files[n%len(files)], hurts[n/len(files)%len(hurts)]
	before := content(g.t, g.mem, name)
	if len(before) == 0 {
		return
	}
	after := append([]byte(nil), before...)
	at := g.rng.IntN((len(after)+4095)/4096) * 4096
	if g.rng.IntN(3) == 0 {
		at = 0 // where headers are
	}
	kind.do(g.rng, after, at, min(at+4096, len(after)))
	size := int64(len(after))
	if kind.name == "cut" {
		size = int64(at)
	}
	g.d.what = fmt.Sprintf("case %d: %s at %d of %s %v, VerifyReads %v", n, kind.name, at, name, g.where, g.v.o.VerifyReads)
	g.d.file = name
	if g.where != inMemory {
		f, err := g.mem.OpenReadWrite(path.Join("db", name))
		must(g.t, "open "+name, err)
		_, err = f.WriteAt(after, 0)
		must(g.t, "write", err)
		must(g.t, "truncate", f.Truncate(size))
		must(g.t, "close", f.Close())
	}
	if g.where == everywhere || g.where == inMemory {
		g.fs.RotMaps(name, faultfs.Replace(0, after))
	}
}

// readOpen reads everything. Without VerifyReads what is believed may be wrong, so that
// only panics and errors without a type count.
func (g *ground) readOpen() {
	if g.v.o.VerifyReads {
		g.read(g.db)
		return
	}
	err := g.db.View(func(txn *brock.Txn) error {
		for item, err := range txn.Items(brock.IteratorOptions{}) {
			if err == nil {
				_, err = item.Value()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		g.typed("read", err, false)
	}
}

// work writes, and copies what the store has.
func (g *ground) work(n int) {
	ctx := context.Background()
	g.also = map[string]string{"zz": text("zz", n, 2000), "zzz": "small"}
	for k, v := range g.also {
		if err := g.db.Set([]byte(k), []byte(v)); err != nil {
			g.typed("set", err, false)
			g.maybe = true
		}
	}
	all := []struct {
		what string
		do   func() error
	}{
		{"flush", func() error { return g.db.Flush(ctx) }},
		{"compact", func() error { return g.db.Compact(ctx) }},
		{"reclaim", func() error { _, err := g.db.Reclaim(ctx); return err }},
	}
	first := g.rng.IntN(len(all))
	for i := range all {
		job := all[(i+first)%len(all)]
		if err := job.do(); err != nil {
			g.typed(job.what, err, false)
		}
	}
}

// after opens the store again, as a process would that has never seen it.
func (g *ground) after() (outcome string) {
	o := g.v.o
	o.FS, o.VerifyReads = g.mem, false
	db, err := brock.Open(o)
	if err != nil {
		g.sound("open again", err)
		return "refused"
	}
	clean := g.read(db)
	verified := db.Verify(context.Background(), nil)
	switch {
	case verified != nil:
		g.sound("verify again", verified)
	case !clean:
		g.errorf("a read found damage, Verify did not")
	}
	if err := db.Close(); err != nil {
		g.typed("close again", err, false)
	}
	if verified != nil {
		return "damaged"
	}
	return "right"
}

// sound fails if err is of a store whose medium has the right bytes.
func (g *ground) sound(what string, err error) {
	g.typed(what, err, false)
	if g.where == inMemory {
		g.errorf("%s: %v: the medium was right", what, err)
	}
}
