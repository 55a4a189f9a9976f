package metamorphic

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// keysFlag says which stores are encrypted. So the programs of this package prove both
// kinds in the time of one.
var keysFlag = flag.String("keys", "some", "which stores are encrypted: all, none, or some, which each run draws")

// testKeys is the provider of all encrypted stores here.
var testKeys = brock.StaticKey(bytes.Repeat([]byte("K"), 32))

// keysFor returns the Keys for the stores of a test, nil for plain ones. Its log says so,
// for a failure to be replayed.
func keysFor(t testing.TB) brock.KeyProvider {
	if *keysFlag == "none" || *keysFlag == "some" && draw.Coin(t) || strings.HasPrefix(t.Name(), "Fuzz") {
		return nil
	}
	if _, told := keysTold.LoadOrStore(t.Name(), true); !told {
		t.Log("the stores are encrypted: -keys all")
	}
	return testKeys
}

var keysTold sync.Map

// keysOf is keysFor for the program of a seed, which has the same in every process.
func keysOf(seed uint64) brock.KeyProvider {
	if *keysFlag == "none" || *keysFlag == "some" && seed%3 != 0 {
		return nil
	}
	return testKeys
}

// Rare bytes: no other bytes of a store are like these by chance.
const (
	rareKey      = "\xf1kEy\xf2\xf3"
	rareValue    = "\xf4vAl\xf5\xf6"
	rareKeyspace = "\u03benAmE\u03c8"
)

// secrets finds rare bytes that are in the clear.
type secrets struct {
	mu    sync.Mutex
	rare  []string
	found []string
}

func (s *secrets) look(where string, b []byte) {
	if s == nil {
		return
	}
	for _, r := range s.rare {
		if at := bytes.Index(b, []byte(r)); at >= 0 {
			s.mu.Lock()
			s.found = append(s.found, fmt.Sprintf("%q at %d of %d bytes: %s", r, at, len(b), where))
			s.mu.Unlock()
		}
	}
}

// list is what was found; "" if nothing is in the clear.
func (s *secrets) list() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.found[:min(len(s.found), 20)], "\n")
}

// lookAll looks at the contents and names of all files.
func (s *secrets) lookAll(t testing.TB, m *vfs.Mem, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		names, err := m.List(dir)
		must(t, "list", err)
		for _, name := range names {
			s.look("a name in "+dir, []byte(name))
			f, err := m.Open(path.Join(dir, name))
			if err != nil {
				continue // a directory
			}
			size, err := f.Size()
			must(t, "size", err)
			b := make([]byte, size)
			if n, err := f.ReadAt(b, 0); n < len(b) {
				must(t, "read", err)
			}
			s.look(path.Join(dir, name), b)
			must(t, "close", f.Close())
		}
	}
}

// Write makes secrets the end of a log.
func (s *secrets) Write(b []byte) (int, error) {
	s.look("log: "+string(b), b)
	return len(b), nil
}

// listen looks at all that events tell.
func (s *secrets) listen(e *brock.Events) {
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func(args []reflect.Value) []reflect.Value {
			for _, a := range args {
				text := fmt.Sprintf("%v %+v", a.Interface(), a.Interface())
				s.look("event "+name+": "+text, []byte(text))
			}
			return nil
		}))
	}
}

// TestNothingIsInTheClear has an encrypted store do all kinds of work, and looks for its
// keys, values and names of keyspaces in all that is ever written to its files, in its log,
// in events, and in the texts of errors.
func TestNothingIsInTheClear(t *testing.T) {
	for _, noMap := range []bool{false, true} {
		t.Run(fmt.Sprint("noMap=", noMap), func(t *testing.T) {
			c := &clearRun{t: t, mem: vfs.NewMem(), secrets: &secrets{rare: []string{rareKey, rareValue, rareKeyspace}}}
			c.files = countHandles(c.mem)
			c.files.secrets = c.secrets
			c.o = brock.Options{
				Dir: "db", ValueDir: "values", Keys: testKeys, FS: c.files, Tuning: small,
				Logger:           slog.New(slog.NewTextHandler(c.secrets, &slog.HandlerOptions{Level: slog.LevelDebug})),
				KeyspaceDefaults: brock.KeyspaceOptions{Compression: brock.S2, CompressAbove: 100, Versions: brock.Retention{Versions: 2}},
			}
			if noMap {
				c.o.FS = withoutMap(c.files)
			}
			c.secrets.listen(&c.o.Events)
			c.run()
			c.secrets.lookAll(t, c.mem, "db", "values")
			if found := c.secrets.list(); found != "" {
				t.Errorf("in the clear:\n%s", found)
			}
		})
	}
}

type clearRun struct {
	t       *testing.T
	mem     *vfs.Mem
	files   *handles
	secrets *secrets
	o       brock.Options
	db      *brock.DB
}

// rareKeyOf returns a key that has rare bytes at both ends: a prefix may be left out.
func rareKeyOf(i int) []byte { return fmt.Appendf(nil, "%s%05d%s", rareKey, i, rareKey) }

// rareValueOf returns a value with rare bytes everywhere, of n bytes or more.
func rareValueOf(i, n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), 57))
	v := []byte(rareValue)
	for len(v) < n {
		v = fmt.Appendf(v, "%016x%s", rng.Uint64(), rareValue)
	}
	return v
}

// err looks at an error, which there may be.
func (c *clearRun) err(err error) {
	if err != nil {
		text := fmt.Sprintf("%v", err)
		for _, r := range []string{rareKey, rareValue} { // the program gave the name of a keyspace
			if strings.Contains(text, r) {
				c.t.Errorf("%q is in the text of an error: %s", r, text)
			}
		}
	}
}

func (c *clearRun) open() {
	db, err := brock.Open(c.o)
	must(c.t, "open", err)
	c.db = db
}

// fill writes all kinds of entries to a keyspace; generations overwrite each other.
func (c *clearRun) fill(ks *brock.Keyspace, generation int) {
	t, ctx := c.t, context.Background()
	in := func(o brock.TxnOptions, fn func(txn *brock.Txn) error) {
		o.Update = true
		txn, err := c.db.Begin(ctx, o)
		must(t, "begin", err)
		if ks != nil {
			txn = txn.In(ks)
		}
		must(t, "write", fn(txn))
		must(t, "commit", txn.Commit())
	}
	size := func(i int) int { return []int{10, 60, 150, 700, 3000, 9000}[i%6] }
	for i := range 60 {
		in(brock.TxnOptions{Durability: brock.Buffered}, func(txn *brock.Txn) error {
			return txn.Set(rareKeyOf(i), rareValueOf(generation*1000+i, size(i+generation)))
		})
	}
	in(brock.TxnOptions{MaxMemory: 1}, func(txn *brock.Txn) error { // it spills
		for i := range 60 {
			if err := txn.Set(rareKeyOf(100+i), rareValueOf(generation*1000+i, size(i))); err != nil {
				return err
			}
		}
		return txn.DeleteRange(rareKeyOf(110+generation), rareKeyOf(120+generation))
	})
	in(brock.TxnOptions{Durability: brock.Synced}, func(txn *brock.Txn) error {
		if err := txn.Set(rareKeyOf(200+generation), rareValueOf(generation, 300_000)); err != nil {
			return err
		}
		if err := txn.Delete(rareKeyOf(generation)); err != nil {
			return err
		}
		return txn.DeleteRange(rareKeyOf(20+generation), rareKeyOf(22+generation))
	})
}

func (c *clearRun) run() {
	t, ctx := c.t, context.Background()
	c.open()
	for generation := range 3 {
		ks, err := c.db.Keyspace(rareKeyspace + "1")
		must(t, "keyspace", err)
		c.fill(nil, generation)
		c.fill(ks, generation)
		must(t, "flush", c.db.Flush(ctx))
		gone, err := c.db.Keyspace(fmt.Sprint(rareKeyspace, "gone", generation))
		must(t, "keyspace", err)
		c.fill(gone, generation)
		c.conflict()
		if generation == 1 {
			must(t, "clear", gone.Clear(ctx))
		}
		must(t, "drop", gone.Drop(ctx))
		c.err(gone.Set(rareKeyOf(1), rareValueOf(1, 10)))
		must(t, "compact", c.db.Compact(ctx))
		_, err = c.db.Reclaim(ctx)
		must(t, "reclaim", err)
		must(t, "verify", c.db.Verify(ctx, nil))
		c.read(true)
		must(t, "close", c.db.Close())
		c.open()
		c.read(true)
	}
	// An abandoned transaction leaves files, which a crash leaves to the next Open.
	txn, err := c.db.Begin(ctx, brock.TxnOptions{Update: true, MaxMemory: 1})
	must(t, "begin", err)
	for i := range 60 {
		must(t, "set", txn.Set(rareKeyOf(i), rareValueOf(i, 2000)))
	}
	left := c.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	txn.Discard()
	must(t, "close", c.db.Close())
	c.secrets.lookAll(t, left, "db", "values")
	c.o.FS = left
	c.open()
	c.read(true)
	must(t, "close", c.db.Close())
	c.damaged(left)
}

// conflict has two transactions write one key.
func (c *clearRun) conflict() {
	err := c.db.Update(func(txn *brock.Txn) error {
		if _, err := txn.Get(rareKeyOf(7)); err != nil {
			return err
		}
		if err := c.db.Set(rareKeyOf(7), rareValueOf(7, 50)); err != nil {
			return err
		}
		return txn.Set(rareKeyOf(7), rareValueOf(8, 50))
	})
	if !errors.Is(err, brock.ErrConflict) {
		c.t.Errorf("no conflict: %v", err)
	}
	c.err(err)
}

// read reads everything. If the store is sound there are as many pairs as ever.
func (c *clearRun) read(sound bool) {
	pairs := 0
	each := func(txn *brock.Txn) error {
		for item, err := range txn.Items(brock.IteratorOptions{}) {
			if err == nil {
				_, err = item.Value()
			}
			if err != nil {
				return err
			}
			pairs++
		}
		return nil
	}
	err := c.db.View(each)
	c.err(err)
	for ks := range c.db.Keyspaces() {
		err = errors.Join(err, ks.View(each))
		c.err(err)
	}
	if sound && (err != nil || pairs < 100) {
		c.t.Errorf("%d pairs: %v", pairs, err)
	}
}

// damaged damages each file of a store at some places, and looks at the errors.
func (c *clearRun) damaged(m *vfs.Mem) {
	for _, dir := range []string{"db", "values"} {
		names, err := m.List(dir)
		must(c.t, "list", err)
		for _, name := range names {
			i, err := m.Stat(path.Join(dir, name))
			must(c.t, "stat", err)
			for _, at := range []int64{5, 100, 5000, i.Size / 2, i.Size - 100, i.Size - 5} {
				if at < 0 || at >= i.Size || name == "LOCK" {
					continue
				}
				damaged := m.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				f, err := damaged.OpenReadWrite(path.Join(dir, name))
				must(c.t, "open", err)
				var b [1]byte
				_, err = f.ReadAt(b[:], at)
				must(c.t, "read", err)
				b[0] ^= 16
				_, err = f.WriteAt(b[:], at)
				must(c.t, "write", err)
				must(c.t, "close", f.Close())
				c.o.FS = damaged
				if c.db, err = brock.Open(c.o); err != nil {
					c.err(err)
					continue
				}
				c.read(false)
				c.err(c.db.Verify(context.Background(), func(e *brock.CorruptionError) { c.err(e) }))
				c.err(c.db.Compact(context.Background()))
				c.err(c.db.Close())
			}
		}
	}
}
