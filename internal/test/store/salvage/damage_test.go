package salvage

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/internal/vlog/segment"
	"github.com/brockdb/brock/vfs"
)

var salvages = flag.Int("salvages", 60, "how many damaged stores TestSalvageDamage salvages")

// state is what a key had at a version; deleted without a value.
type state struct {
	version uint64
	value   []byte
	deleted bool
}

// part is a range of bytes of a file.
type part struct {
	name     string
	from, to int64
}

// proof is a way to a state of a key: all parts must be as they were written.
type proof struct {
	parts  []part
	before int // journal: number of the frame; one behind it must be there, too
}

// patient is a store to be damaged, and all that is known of it.
type patient struct {
	files   map[string][]byte
	history map[string][]state // by keyspace and key, oldest first
	passed  map[string][]state // values that the transaction which set them has replaced or deleted
	proofs  map[string][]proof // of the newest state of keys that have one
	frames  []part             // of the journal, in order
	spilled map[string]bool    // keys of which only the manifest tells the version
}

func salvageOptions(fs vfs.FS, dir string) brock.Options {
	return brock.Options{
		FS: fs, Dir: dir, MemoryLimit: 4 << 20,
		Tuning:           brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 128 << 10, RunFileSize: 96 << 10},
		KeyspaceDefaults: brock.KeyspaceOptions{Compression: brock.S2},
		Maintenance:      brock.Maintenance{IdleAfter: time.Hour, ScrubEvery: -1},
	}
}

// write makes one transaction, and notes what it does.
func (p *patient) write(t *testing.T, db *brock.DB, rng *rand.Rand, spaces []*brock.Keyspace) {
	type change struct {
		name string
		s    state
	}
	var changes []change
	big := rng.IntN(60) == 0
	err := db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 256 << 10}, func(txn *brock.Txn) error {
		changes = changes[:0]
		n := 1 + rng.IntN(8)
		if big {
			n = 300
		}
		for range n {
			at := rng.IntN(len(spaces) + 1)
			to, name := txn, ""
			if at > 0 {
				to, name = txn.In(spaces[at-1]), spaces[at-1].Name()
			}
			key := fmt.Appendf(nil, "key %04d", rng.IntN(1500))
			id := name + "/" + string(key)
			switch rng.IntN(10) {
			case 0:
				changes = append(changes, change{id, state{deleted: true}})
				if err := to.Delete(key); err != nil {
					return err
				}
			default:
				v := storetest.RandomBytes(rng.IntN(1<<20), rng.IntN(120))
				switch rng.IntN(4) {
				case 0:
					v = storetest.RandomBytes(rng.IntN(1<<20), 600+rng.IntN(3000))
				case 1:
					v = bytes.Repeat(fmt.Appendf(nil, "%d ", rng.IntN(1000)), 300)
				}
				changes = append(changes, change{id, state{value: v}})
				if err := to.Set(key, v); err != nil {
					return err
				}
			}
		}
		if lo := rng.IntN(1500); rng.IntN(40) == 0 {
			from, to := fmt.Appendf(nil, "key %04d", lo), fmt.Appendf(nil, "key %04d", lo+20)
			for i := range 20 {
				changes = append(changes, change{fmt.Sprintf("/key %04d", lo+i), state{deleted: true}})
			}
			return txn.DeleteRange(from, to)
		}
		return nil
	})
	assert.OK(t, err)
	v := db.Version()
	for _, c := range changes {
		c.s.version = v
		if h := p.history[c.name]; len(h) > 0 && h[len(h)-1].version == v {
			p.passed[c.name] = append(p.passed[c.name], h[len(h)-1])
			h[len(h)-1] = c.s
		} else {
			p.history[c.name] = append(h, c.s)
		}
	}
}

// newPatient makes a store with runs, segments, forwarding tables and an unflushed journal.
func newPatient(t *testing.T, seed uint64) *patient {
	p := &patient{files: map[string][]byte{}, history: map[string][]state{}, passed: map[string][]state{}, proofs: map[string][]proof{}, spilled: map[string]bool{}}
	rng := rand.New(rand.NewPCG(seed, 3))
	fs := vfs.NewMem()
	db, err := brock.Open(salvageOptions(fs, "/old"))
	assert.OK(t, err)
	spaces := []*brock.Keyspace{storetest.OpenKeyspace(t, db, "fruit"), storetest.OpenKeyspace(t, db, "nuts", brock.KeyspaceOptions{ValueThreshold: 64, Compression: brock.NoCompression})}
	gone := storetest.OpenKeyspace(t, db, "gone")
	for range 20 {
		assert.OK(t, gone.Set([]byte("key 0001"), storetest.RandomBytes(rng.IntN(1000), 700)))
	}
	rounds := 2 + rng.IntN(3)
	for i := range rounds {
		for range 100 + rng.IntN(200) {
			p.write(t, db, rng, spaces)
		}
		if i == 0 {
			assert.OK(t, db.Flush(t.Context()))
			assert.OK(t, gone.Drop(t.Context()))
		}
		if rng.IntN(3) == 0 {
			assert.OK(t, db.Compact(t.Context()))
		}
		if rng.IntN(3) == 0 {
			assert.Must(db.Reclaim(t.Context()))
		}
	}
	for range rng.IntN(150) {
		p.write(t, db, rng, spaces)
	}
	assert.OK(t, db.Close())
	names, err := fs.List("/old")
	assert.OK(t, err)
	for _, name := range names {
		if name != "LOCK" {
			p.files[name] = readAll(t, fs, filepath.Join("/old", name))
		}
	}
	p.locate(t, fs)
	return p
}

func readAll(t testing.TB, fs vfs.FS, path string) []byte {
	f, err := fs.Open(path)
	assert.OK(t, err)
	size, err := f.Size()
	assert.OK(t, err)
	p := make([]byte, size)
	if _, err = f.ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	assert.OK(t, f.Close())
	return p
}

// locate finds all proofs of the newest state of each key.
func (p *patient) locate(t *testing.T, fs vfs.FS) {
	log, err := manifest.Open(manifest.Options{FS: fs, Dir: "/old", ReadOnly: true})
	assert.OK(t, err)
	l, super := log.Layout(), log.Super()
	assert.OK(t, log.Close())
	spaces := map[entry.KeyspaceID]string{}
	for _, k := range l.Keyspaces() {
		spaces[k.ID] = k.Name
	}
	newest := func(e *entry.Entry) (string, bool) {
		id, _ := entry.KeyspaceOf(e.Key)
		name := spaces[id] + "/" + string(e.Key[entry.PrefixLen(e.Key[0]):])
		if id != 0 && spaces[id] == "" {
			return "", false
		}
		h := p.history[name]
		return name, len(h) > 0 && uint64(e.Version) == h[len(h)-1].version && !h[len(h)-1].deleted
	}
	config := segment.Config{FS: fs, Dir: "/old", UUID: super.UUID}
	for base := range p.files {
		name, _ := filename.Parse(base)
		if name.Kind != filename.Journal && name.Kind != filename.Value {
			continue
		}
		stamp, s := entry.Version(0), l.Segment(name.Number)
		if s != nil {
			stamp = s.Stamp
		}
		unflushed := name.Kind == filename.Journal && name.Number > l.FlushedTo()
		last := map[string]int{} // a transaction may write a key twice: the later record counts
		p.eachRecord(t, config, name, func(f part, number uint64, off int64, rec *entry.Record) {
			e := &entry.Entry{Key: rec.Key, Version: rec.Version + stamp}
			key, ok := newest(e)
			if !ok || rec.Kind == entry.Delete || rec.Kind == entry.RangeDelete {
				return
			}
			// A large transaction may have written the key again, into another segment.
			if rec.Own && rec.Size >= 64 && (s == nil || !s.IsDead(uint64(off))) {
				at := part{base, off, off + int64(rec.Size)}
				pr := proof{parts: []part{at}}
				if name.Kind == filename.Journal {
					pr.before = int(number)
				}
				if i, twice := last[key]; twice {
					p.proofs[key][i] = pr
				} else {
					last[key] = len(p.proofs[key])
					p.proofs[key] = append(p.proofs[key], pr)
				}
				if stamp != 0 {
					p.spilled[key] = true
				}
			}
			if unflushed {
				p.proofs[key] = append(p.proofs[key], proof{parts: []part{f}})
			}
		})
	}
	opens := pageio.NewFiles(fs, 0)
	for _, r := range l.Runs() {
		for _, f := range r.Files {
			m, err := run.OpenRemains(run.OpenConfig{FS: fs, Dir: "/old", UUID: super.UUID, Files: opens}, f.Num, r.Stamp, f.KeyID)
			assert.OK(t, err)
			for e, hole := m.Next(); e != nil || hole != nil; e, hole = m.Next() {
				if hole != nil {
					t.Fatalf("a hole in a sound file: %+v", hole)
				}
				key, ok := newest(e)
				if !ok || e.Separated {
					continue
				}
				if r.Stamp != 0 {
					p.spilled[key] = true
				}
				from, to, trailer, end := m.At()
				base := filename.Of(filename.Run, f.Num)
				const page = 4096
				// A record of the same version is of a value that the transaction has replaced.
				p.proofs[key] = append(p.proofs[key][:0], proof{parts: []part{{base, from / page * page, (to + page - 1) / page * page}, {base, trailer, end}}})
			}
			assert.OK(t, m.Close())
		}
	}
	for name, h := range p.history {
		if !h[len(h)-1].deleted && len(p.proofs[name]) == 0 {
			t.Fatalf("%s: nothing has its value", name)
		}
	}
}

// eachRecord walks a segment that is whole.
func (p *patient) eachRecord(t *testing.T, c segment.Config, name filename.Name, fn func(f part, number uint64, off int64, rec *entry.Record)) {
	data := p.files[name.String()]
	id := checksum.New(c.UUID, byte(name.Kind), uint64(name.Number))
	for at := int64(segment.HeaderSize); at+frame.HeaderSize <= int64(len(data)); {
		h, err := frame.Decode(data[at:], id, at)
		if err != nil {
			return
		}
		f := part{name.String(), at, at + h.Size}
		if name.Kind == filename.Journal {
			p.frames = append(p.frames, f)
		}
		if h.Kind == frame.Group {
			payload := data[at+frame.HeaderSize : at+h.Size]
			v := h.FirstVersion - 1
			for pos := 0; pos < len(payload); {
				var rec entry.Record
				err := rec.DecodeNext(payload[pos:], &v, false)
				assert.OK(t, err)
				fn(f, h.Number, at+frame.HeaderSize+int64(pos), &rec)
				pos += rec.Size
			}
		}
		at += h.Size
	}
}

// wound is damage to a file.
type wound struct {
	part
	how string
}

// damage makes one to three wounds.
func (p *patient) damage(rng *rand.Rand) (files map[string][]byte, wounds []wound) {
	files = map[string][]byte{}
	var names []string
	for name, data := range p.files {
		files[name] = data
		names = append(names, name)
	}
	slices.Sort(names)
	for range 1 + rng.IntN(3) {
		name := names[rng.IntN(len(names))]
		data := bytes.Clone(files[name])
		n := int64(len(data))
		if n == 0 {
			continue
		}
		at := rng.Int64N(n)
		w := wound{part: part{name, at, at + 1}}
		switch rng.IntN(6) {
		case 0, 1:
			w.how = "flip"
			data[at] ^= 1 << rng.IntN(8)
		case 2:
			w.how = "page of zeros"
			w.from = at / 4096 * 4096
			w.to = min(w.from+4096, n)
			clear(data[w.from:w.to])
		case 3:
			w.how = "noise"
			w.to = min(at+1+rng.Int64N(20000), n)
			for i := w.from; i < w.to; i++ {
				data[i] ^= byte(1 + rng.IntN(255))
			}
		case 4:
			w.how, w.to = "cut", n
			data = data[:at]
		default:
			w.how, w.from, w.to = "missing", 0, n
			data = nil
		}
		files[name] = data
		wounds = append(wounds, w)
	}
	for _, w := range wounds {
		if w.how == "missing" {
			delete(files, w.name)
		}
	}
	return files, wounds
}

// asWritten reports whether a part is as it was written.
func asWritten(p part, wounds []wound) bool {
	return !slices.ContainsFunc(wounds, func(w wound) bool { return w.name == p.name && w.from < p.to && p.from < w.to })
}

// proven reports whether a proof is left.
func (p *patient) proven(key string, wounds []wound) bool {
	in := func(what string) bool {
		return slices.ContainsFunc(wounds, func(w wound) bool { return strings.Contains(w.name, what) })
	}
	// Without its entry, the record of a large transaction counts if no later one can be lost.
	if p.spilled[key] && (in("MANIFEST") || in(".run") && in(".val")) {
		return false
	}
	return slices.ContainsFunc(p.proofs[key], func(pr proof) bool {
		for _, part := range pr.parts {
			if !asWritten(part, wounds) {
				return false
			}
		}
		return pr.before == 0 || p.frameHolds(pr.parts[0], wounds)
	})
}

// frameHolds reports whether the frame of a record, or one behind it, is as it was written.
func (p *patient) frameHolds(rec part, wounds []wound) bool {
	for _, f := range p.frames {
		if (f.name > rec.name || f.name == rec.name && f.to > rec.from) && asWritten(f, wounds) {
			return true
		}
	}
	return false
}

// TestSalvageDamage damages stores at random, and salvages them: whatever a checksum still
// proves is in the new store, byte for byte; nothing is there that never was; and what is
// missing or older than it was is in the report.
func TestSalvageDamage(t *testing.T) {
	seed := draw.Seed(t)
	var p *patient
	recovered, lost, found := 0, 0, uint64(0)
	n := *salvages
	if testing.Short() {
		n = min(n, 40)
	}
	for i := range n {
		if deadline.Near(t) {
			n = i
			break
		}
		if i%20 == 0 {
			p = newPatient(t, seed+uint64(i))
		}
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		files, wounds := p.damage(rng)
		if i%20 == 0 {
			files, wounds = p.files, nil
		}
		r, l, f := p.treat(t, files, wounds)
		if recovered, lost, found = recovered+r, lost+l, found+f; t.Failed() {
			t.Fatalf("seed %d, case %d: %+v", seed, i, wounds)
		}
	}
	t.Logf("%d stores: %d values back, %d of them found without their entry; %d gone with what proved them, or older", n, recovered, found, lost)
}

// treat salvages a damaged store, and compares.
func (p *patient) treat(t *testing.T, files map[string][]byte, wounds []wound) (recovered, lost int, found uint64) {
	fs := vfs.NewMem()
	assert.OK(t, fs.MkdirAll("/old"))
	for name, data := range files {
		f, err := fs.Create(filepath.Join("/old", name))
		assert.OK(t, err)
		assert.Must(f.WriteAt(data, 0))
		assert.OK(t, f.Close())
	}
	var losses []*brock.CorruptionError
	sum, err := brock.Salvage(t.Context(), brock.Options{FS: fs, Dir: "/old"}, salvageOptions(fs, "/new"), func(l *brock.CorruptionError) { losses = append(losses, l) })
	if err != nil {
		t.Error(err)
		return
	}
	for name, data := range files {
		if !bytes.Equal(readAll(t, fs, filepath.Join("/old", name)), data) {
			t.Errorf("%s was changed", name)
		}
	}
	o := salvageOptions(fs, "/new")
	o.MustExist = true
	db, err := brock.Open(o)
	assert.OK(t, err)
	assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Errorf("the new store: %v", c) }))
	have := map[string]state{}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		read := func(name string, txn *brock.Txn) {
			for it, err := range txn.Items(brock.IteratorOptions{}) {
				assert.OK(t, err)
				v, err := it.ValueCopy(nil)
				assert.OK(t, err)
				have[name+"/"+string(it.Key())] = state{version: it.Version(), value: v}
			}
		}
		read("", txn)
		for ks := range db.Keyspaces() {
			read(ks.Name(), txn.In(ks))
		}
		return nil
	}))
	renamed := func(key string) string { // a keyspace whose name is lost has its number
		name, rest, _ := strings.Cut(key, "/")
		if _, ok := have[key]; !ok {
			switch name {
			case "fruit":
				return "salvaged-1/" + rest
			case "nuts":
				return "salvaged-2/" + rest
			}
		}
		return key
	}
	wrong := 0
	for key, h := range p.history {
		want := h[len(h)-1]
		got, is := have[renamed(key)]
		switch {
		case is && !want.deleted && got.version == want.version:
			recovered++
			if !bytes.Equal(got.value, want.value) {
				t.Errorf("%s: another value", key)
			}
		case !is && want.deleted:
		case is && !slices.ContainsFunc(append(slices.Clone(h), p.passed[key]...), func(s state) bool {
			return s.version == got.version && bytes.Equal(s.value, got.value) && !s.deleted
		}):
			t.Errorf("%s: version %d never was", key, got.version)
		default:
			lost++
			wrong++
			if !want.deleted && p.proven(key, wounds) {
				t.Errorf("%s: version %d is gone (there: %v, version %d), and undamaged: %+v", key, want.version, is, got.version, p.proofs[key])
			}
			if is && !slices.ContainsFunc(losses, func(l *brock.CorruptionError) bool { return l.Stale }) {
				t.Errorf("%s: version %d is not the newest, and nothing says so", key, got.version)
			}
		}
	}
	if wrong > 0 && len(losses) == 0 || wounds == nil && len(losses) > 0 {
		t.Errorf("%d keys are not as they were, and %d losses: %+v", wrong, len(losses), losses)
	}
	if db.Version() < uint64(sum.Version) {
		t.Errorf("version %d, want %d", db.Version(), sum.Version)
	}
	assert.OK(t, db.Set([]byte("on"), []byte("and on")))
	assert.OK(t, db.Close())
	return recovered, lost, sum.Found
}
