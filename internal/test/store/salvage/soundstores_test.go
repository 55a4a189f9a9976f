package salvage

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

var soundStores = flag.Int("sound-stores", 12, "how many stores TestSalvageOfSoundStores salvages")

// TestSalvageOfSoundStores: of a store that has no damage, Salvage finds none, and the new store has
// exactly what the old one has: whatever was written, however often the old one was opened, and
// however its last writer has ended.
func TestSalvageOfSoundStores(t *testing.T) {
	for i := range *soundStores {
		seed := draw.Seed(t)
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			s := newSound(t, seed)
			for range 2 + s.rng.IntN(4) {
				s.session(t)
			}
			s.salvaged(t)
		})
	}
}

// sound is a store that is written at random.
type sound struct {
	rng    *rand.Rand
	o      brock.Options
	mem    *vfs.Mem
	db     *brock.DB
	spaces []string // names of keyspaces that there may be
}

func newSound(t *testing.T, seed uint64) *sound {
	s := &sound{rng: rand.New(rand.NewPCG(seed, 0)), mem: vfs.NewMem(), spaces: []string{"", "a", "b", "c", "d"}}
	s.o = salvageOptions(s.mem, "/old")
	if s.rng.IntN(3) == 0 {
		s.o.Keys = brock.StaticKey(make([]byte, 32))
	}
	if s.rng.IntN(3) == 0 {
		s.o.ValueDir = "/values"
	}
	s.o.KeyspaceDefaults.Versions.Versions = s.rng.IntN(3)
	return s
}

// session opens the store, writes and ends: in order, by a kill or by a power cut. Sometimes a copy
// takes the place of the store.
func (s *sound) session(t *testing.T) {
	s.open(t)
	for range 5 + s.rng.IntN(40) {
		s.step(t)
	}
	end := s.rng.IntN(8)
	mem := s.mem.CrashClone(vfs.CrashOptions{Mode: vfs.CrashMode(s.rng.IntN(int(vfs.Chaos) + 1)), Seed: s.rng.Uint64()})
	copied := s.o
	copied.Dir, copied.ValueDir = s.o.Dir+"+", ""
	switch end {
	case 0, 1:
		s.mem, s.o.FS = mem, mem
	case 2:
		assert.OK(t, s.db.Checkpoint(t.Context(), copied.Dir))
		s.o = copied
	case 3:
		var stream bytes.Buffer
		assert.Must(s.db.Backup(t.Context(), &stream, brock.BackupOptions{}))
		assert.Must(brock.Restore(t.Context(), &stream, copied))
		s.o = copied
	}
	assert.OK(t, s.db.Close())
}

func (s *sound) open(t *testing.T) {
	db, err := brock.Open(s.o)
	assert.OK(t, err)
	s.db = db
}

// space is a keyspace at random.
func (s *sound) space(t *testing.T) *brock.Keyspace {
	name := s.spaces[s.rng.IntN(len(s.spaces))]
	if name == "" {
		return nil
	}
	ks, err := s.db.Keyspace(name)
	if err != nil {
		o := brock.KeyspaceOptions{ValueThreshold: []int{0, 50, -1}[s.rng.IntN(3)], Compression: brock.Compression(s.rng.IntN(3))}
		if s.rng.IntN(2) == 0 {
			o.Versions = brock.Retention{Versions: s.rng.IntN(4), Age: time.Duration(s.rng.IntN(2)) * time.Hour}
		}
		ks = storetest.OpenKeyspace(t, s.db, name, o)
	}
	return ks
}

func (s *sound) key() []byte { return fmt.Appendf(nil, "k%03d", s.rng.IntN(300)) }

// span is a range at random; many have one lower bound, some have no bound.
func (s *sound) span() (lo, hi []byte) {
	from := s.rng.IntN(4) * s.rng.IntN(80)
	lo, hi = fmt.Appendf(nil, "k%03d", from), fmt.Appendf(nil, "k%03d", from+1+s.rng.IntN(60))
	switch s.rng.IntN(8) {
	case 0:
		lo = nil
	case 1:
		hi = nil
	case 2:
		hi = append(hi, 0xff, 0xff)
	}
	return lo, hi
}

func (s *sound) value() []byte {
	switch n := s.rng.IntN(1 << 20); s.rng.IntN(8) {
	case 0:
		return storetest.RandomBytes(n, 4000+s.rng.IntN(9000))
	case 1:
		return []byte(strings.Repeat(fmt.Sprint(n), 200))
	case 2:
		return nil
	default:
		return storetest.RandomBytes(n, s.rng.IntN(200))
	}
}

// write makes n writes at random places.
func (s *sound) write(t *testing.T, txn *brock.Txn, n int) {
	for range n {
		to := txn.In(s.space(t))
		switch s.rng.IntN(8) {
		case 0:
			lo, hi := s.span()
			assert.OK(t, to.DeleteRange(lo, hi))
		case 1:
			assert.OK(t, to.Delete(s.key()))
		default:
			e := &brock.Entry{Key: s.key(), Value: s.value(), Meta: byte(s.rng.IntN(3)), OnlyLatest: s.rng.IntN(9) == 0}
			if s.rng.IntN(6) == 0 {
				e.ExpiresAt = time.Now().Add(time.Duration(1+s.rng.IntN(2)*1000) * time.Hour)
			}
			assert.OK(t, to.SetEntry(e))
		}
	}
}

func (s *sound) step(t *testing.T) {
	ctx := t.Context()
	switch s.rng.IntN(24) {
	case 0:
		assert.OK(t, s.db.Flush(ctx))
	case 1:
		assert.OK(t, s.db.Compact(ctx))
	case 2:
		assert.Must(s.db.Reclaim(ctx))
	case 3:
		if ks := s.space(t); ks != nil {
			assert.OK(t, ks.Drop(ctx))
		}
	case 4:
		if ks := s.space(t); ks != nil {
			assert.OK(t, ks.Clear(ctx))
		}
	case 5:
		assert.OK(t, s.db.DropAll(ctx))
	case 6, 7, 8: // larger than its memory
		txn, err := s.db.Begin(ctx, brock.TxnOptions{Update: true, MaxMemory: 8 << 10})
		assert.OK(t, err)
		s.write(t, txn, 100)
		if s.rng.IntN(4) > 0 {
			assert.OK(t, txn.Commit())
		}
		txn.Discard()
	case 9:
		assert.OK(t, s.db.Sync(ctx))
	case 10:
		if s.o.Keys != nil {
			assert.OK(t, s.db.RotateKey(ctx, brock.RotateOptions{}))
		}
	default:
		txn := s.db.NewTransaction(true)
		s.write(t, txn, 1+s.rng.IntN(20))
		assert.OK(t, txn.Commit())
	}
}

// salvaged compares what Open and Salvage find of the store.
func (s *sound) salvaged(t *testing.T) {
	t.Helper()
	opened := s.o
	opened.FS = s.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	db, err := brock.Open(opened)
	assert.OK(t, err)
	want := everything(t, db)
	assert.OK(t, db.Close())
	to := salvageOptions(s.mem, "/new")
	to.Keys = s.o.Keys
	sum, err := brock.Salvage(t.Context(), s.o, to, func(c *brock.CorruptionError) { t.Errorf("%v, stale %v", c, c.Stale) })
	assert.OK(t, err)
	assert.Equal(t, "keys", sum.Keys, uint64(len(want)))
	to.MustExist = true
	db = storetest.Open(t, to)
	got := everything(t, db)
	for key, v := range want {
		if got[key] != v {
			t.Errorf("%s: %s, want %s", key, got[key], v)
		}
		delete(got, key)
	}
	for key, v := range got {
		t.Errorf("%s: %s, want nothing", key, v)
	}
	assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
}

// everything returns all items of all keyspaces, and the keyspaces' options.
func everything(t *testing.T, db *brock.DB) map[string]string {
	all := map[string]string{}
	list := func(name string, txn *brock.Txn) {
		for it, err := range txn.Items(brock.IteratorOptions{}) {
			assert.OK(t, err)
			sum := fnv.New64()
			_, _ = sum.Write(assert.Must(it.ValueCopy(nil)))
			all[fmt.Sprintf("%s/%s", name, it.Key())] = fmt.Sprint(it.Version(), sum.Sum64(), it.Meta(), it.ExpiresAt(), it.OnlyLatest())
		}
	}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		list("", txn)
		for ks := range db.Keyspaces() {
			list(ks.Name(), txn.In(ks))
		}
		return nil
	}))
	return all
}
