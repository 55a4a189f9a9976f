package damage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// recorded is a store with a history, and what it held at each version.
type recorded struct {
	t      *testing.T
	db     *brock.DB
	fs     *vfs.Mem
	o      brock.Options
	states map[uint64]map[string]string // by version: what each keyspace holds; of one that was dropped, what it held last
	gone   map[string]bool              // keyspaces that were dropped
}

func newRecorded(t *testing.T) *recorded {
	r := &recorded{t: t, fs: vfs.NewMem(), states: map[uint64]map[string]string{0: {"": ""}}, gone: map[string]bool{}}
	r.o = brock.Options{Dir: storetest.Dir, FS: r.fs, Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	r.db = assert.Must(brock.Open(r.o))
	return r
}

// commit sets pairs of a keyspace, and records what there is then.
func (r *recorded) commit(ks string, pairs ...string) {
	r.t.Helper()
	var in *brock.Keyspace
	if ks != "" {
		in = storetest.OpenKeyspace(r.t, r.db, ks)
	}
	assert.OK(r.t, r.db.Update(func(txn *brock.Txn) error { return storetest.Put(txn.In(in), pairs...) }))
	r.record()
}

func (r *recorded) record() {
	state := maps.Clone(r.states[0])
	for name, text := range recordedState(r.t, r.db) {
		state[name] = text
	}
	r.states[0] = state // what the next one begins with
	r.states[r.db.Version()] = state
}

// recordedState is what each keyspace holds.
func recordedState(t *testing.T, db *brock.DB) map[string]string {
	t.Helper()
	state := map[string]string{}
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		state[""] = storetest.ShowItems(txn.All())
		for ks := range db.Keyspaces() {
			state[ks.Name()] = storetest.ShowItems(txn.In(ks).All())
		}
		return nil
	}))
	return state
}

// spill commits a transaction larger than its memory.
func (r *recorded) spill() {
	r.t.Helper()
	txn := assert.Must(r.db.Begin(context.Background(), brock.TxnOptions{Update: true, MaxMemory: 2000}))
	defer txn.Discard()
	for i := range 40 {
		assert.OK(r.t, storetest.Put(txn, fmt.Sprintf("spilled%d=%d", i, r.db.Version()), fmt.Sprintf("large%d=%s", i, strings.Repeat("x", 900))))
	}
	assert.OK(r.t, txn.Commit())
	r.record()
}

// history fills the store in all ways.
func (r *recorded) history() {
	t := r.t
	for i := range 5 {
		r.commit("", fmt.Sprintf("a%d=%d", i, i), "n=1")
	}
	r.commit("one", "x=1")
	assert.OK(t, r.db.Flush(context.Background()))
	r.commit("", "a0", "n=2")
	r.commit("", "b="+strings.Repeat("v", 2000)) // separated
	r.commit("two", "y=1")
	assert.OK(t, r.db.Flush(context.Background()))
	r.commit("two", "y=2")
	assert.OK(t, storetest.OpenKeyspace(t, r.db, "one").Drop(context.Background()))
	r.gone["one"] = true
	r.commit("", "n=3")
	r.spill()
	r.commit("", "n=4", "spilled3")
	r.commit("three", "z=1")
	r.commit("", "n=5")
}

// frameOf is where a frame lies in a file.
type frameOf struct {
	name     string
	off, end int
}

// framesOf lists the frames of the manifest and of journal segments.
func framesOf(t *testing.T, fsys vfs.FS) (list []frameOf) {
	t.Helper()
	for _, base := range assert.Must(fsys.List(storetest.Dir)) {
		off := 64
		switch {
		case strings.HasSuffix(base, ".log"):
			off = 4096
		case !strings.HasPrefix(base, "MANIFEST"):
			continue
		}
		name := filepath.Join(storetest.Dir, base)
		p := storetest.ReadFile(t, fsys, name)
		list = append(list, frameOf{name, 0, off}) // the header
		for off+48 <= len(p) {
			n := 8 * int(binary.LittleEndian.Uint32(p[off+8:]))
			if n == 0 || off+n > len(p) {
				break
			}
			list = append(list, frameOf{name, off, off + n})
			off += n
		}
	}
	return list
}

// frameDamages are kinds of damage to a frame.
var frameDamages = map[string]func(t *testing.T, fsys vfs.FS, f frameOf){
	"a flip in its header": func(t *testing.T, fsys vfs.FS, f frameOf) {
		storetest.EditFile(t, fsys, f.name, func(p []byte) { p[f.off+20] ^= 4 })
	},
	"a flip at its end": func(t *testing.T, fsys vfs.FS, f frameOf) {
		storetest.EditFile(t, fsys, f.name, func(p []byte) { p[f.end-4] ^= 4 })
	},
	"zeros": func(t *testing.T, fsys vfs.FS, f frameOf) {
		storetest.EditFile(t, fsys, f.name, func(p []byte) { clear(p[f.off:f.end]) })
	},
	"a cut": func(t *testing.T, fsys vfs.FS, f frameOf) {
		file := assert.Must(fsys.OpenReadWrite(f.name))
		assert.OK(t, errors.Join(file.Truncate(int64(f.off+(f.end-f.off)/2)), file.Close()))
	},
	"no file": func(t *testing.T, fsys vfs.FS, f frameOf) { assert.OK(t, fsys.Remove(f.name)) },
}

// TestRecoverUpTo: each frame of the manifest and of the journal of a store, closed or
// killed, is damaged in each way. Open refuses the store and changes nothing; with UpTo it
// shows a state that the store has had, and changes nothing either. Where the journal is
// damaged, that is the one right before the damage.
func TestRecoverUpTo(t *testing.T) {
	r := newRecorded(t)
	r.history()
	killed := r.fs.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	assert.OK(t, r.db.Close())
	for name, fsys := range map[string]*vfs.Mem{"closed": r.fs, "killed": killed} {
		opened, refused := 0, 0
		for _, f := range framesOf(t, fsys) {
			for what, damage := range frameDamages {
				bad := fsys.CrashClone(vfs.CrashOptions{Mode: vfs.All})
				damage(t, bad, f)
				if r.upTo(fmt.Sprintf("%s, %s of %s at %d", name, what, f.name, f.off), bad) {
					opened++
				} else {
					refused++
				}
			}
		}
		t.Logf("%s: %d opened, %d refused", name, opened, refused)
		if opened < 20 {
			t.Errorf("%s: only %d stores were opened", name, opened)
		}
	}
}

// upTo opens a damaged store in both ways, and reports whether it did.
func (r *recorded) upTo(what string, bad *vfs.Mem) bool {
	t := r.t
	t.Helper()
	o := r.o
	o.FS = bad
	before := storetest.ShowFiles(t, bad)
	db, strict := brock.Open(o)
	if strict == nil { // a torn tail, or damage to what nobody needs
		assert.OK(t, db.Close())
		return true
	}
	assert.Error(t, what, strict, brock.ErrCorrupt)
	assert.Equal(t, what+": after a strict Open", storetest.OmitLock(storetest.ShowFiles(t, bad)), storetest.OmitLock(before))
	o.Recover, o.Mode = brock.UpTo, brock.ReadOnly
	db, err := brock.Open(o)
	if err != nil {
		assert.Error(t, what, err, brock.ErrCorrupt)
		assert.Equal(t, what+": refused up to damage", storetest.OmitLock(storetest.ShowFiles(t, bad)), storetest.OmitLock(before))
		return false
	}
	loss := db.Loss()
	if loss == nil || loss.Damage == nil || loss.LastVersion < loss.Version {
		t.Fatalf("%s: loss is %+v", what, loss)
	}
	r.isState(what, db, loss.Version)
	assert.OK(t, db.Close())
	assert.Equal(t, what+": after an Open up to damage", storetest.OmitLock(storetest.ShowFiles(t, bad)), storetest.OmitLock(before))
	return true
}

// isState compares a store with what it was at a version.
func (r *recorded) isState(what string, db *brock.DB, version uint64) {
	t := r.t
	t.Helper()
	want, ok := r.states[version]
	if version == 0 {
		want, ok = map[string]string{}, true
	}
	if !ok {
		t.Fatalf("%s: there never was a version %d", what, version)
	}
	got := recordedState(t, db)
	for ks, text := range got {
		if text != want[ks] {
			t.Fatalf("%s: version %d of %q is %.200q, was %.200q", what, version, ks, text, want[ks])
		}
	}
	for ks, text := range want {
		if _, there := got[ks]; !there && text != "" && !r.gone[ks] {
			t.Fatalf("%s: version %d lacks %q, which was %.200q", what, version, ks, text)
		}
	}
}

// TestRecoverLosesNothingBefore: the state is that right before the damaged commit.
func TestRecoverLosesNothingBefore(t *testing.T) {
	r := newRecorded(t)
	first := r.db.Version()
	for i := range 20 {
		r.commit("", fmt.Sprintf("a%d=%d", i, i))
	}
	killed := r.fs.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	assert.OK(t, r.db.Close())
	var journal []frameOf
	for _, f := range framesOf(t, killed) {
		if strings.HasSuffix(f.name, ".log") && f.off > 0 {
			journal = append(journal, f)
		}
	}
	assert.Equal(t, "frames", len(journal), 20)
	for i, f := range journal[:len(journal)-1] {
		bad := killed.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		frameDamages["a flip at its end"](t, bad, f)
		o := r.o
		o.FS, o.Mode, o.Recover = bad, brock.ReadOnly, brock.UpTo
		told := make(chan brock.Loss, 1)
		o.Events.Loss = func(l brock.Loss) { told <- l }
		db := assert.Must(brock.Open(o))
		loss := <-told
		assert.Equal(t, "version", loss.Version, first+uint64(i))
		assert.Equal(t, "newest version", loss.LastVersion, first+20)
		assert.Equal(t, "commits", loss.Commits, int64(20-i))
		assert.Equal(t, "version of the store", db.Version(), loss.Version)
		if loss.Bytes <= 0 || loss.Damage.File != filepath.Base(f.name) || loss.Damage.Offset != int64(f.off) {
			t.Errorf("frame %d: %+v", i, loss)
		}
		r.isState("frame", db, loss.Version)
		assert.OK(t, db.Close())
	}
}

// TestRecoverManyMemtables: a store with a ValueDir whose journal fills several memtables is
// read up to the damage.
func TestRecoverManyMemtables(t *testing.T) {
	const values = "/values"
	fsys := vfs.NewMem()
	o := brock.Options{Dir: storetest.Dir, ValueDir: values, FS: fsys, Maintenance: brock.Maintenance{IdleAfter: time.Hour},
		Tuning: brock.Tuning{MemtableSize: 4 << 20, SegmentSize: 64 << 10}}
	db := assert.Must(brock.Open(o))
	const commits = 600
	for i := range commits {
		assert.OK(t, db.Set(storetest.LayeredKey(i), storetest.LayeredValue(i, i%3)))
		assert.OK(t, db.Set(fmt.Appendf(nil, "filler %d", i), make([]byte, 700)))
	}
	bad := fsys.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	assert.OK(t, db.Close())
	var logs []string
	for _, base := range assert.Must(bad.List(values)) {
		if strings.HasSuffix(base, ".log") {
			logs = append(logs, filepath.Join(values, base))
		}
	}
	if len(logs) < 6 {
		t.Fatal(logs)
	}
	storetest.FlipBit(t, bad, logs[len(logs)-2], 30000)
	o.FS, o.Tuning.MemtableSize, o.Recover, o.Mode = bad, 64<<10, brock.UpTo, brock.ReadOnly
	db = assert.Must(brock.Open(o))
	defer db.Close()
	loss := *db.Loss()
	if loss.Version < commits || loss.Version >= 2*commits {
		t.Fatalf("%+v", loss)
	}
	for i := range int(loss.Version) / 2 {
		value, err := db.Get(storetest.LayeredKey(i))
		if err != nil || string(value) != string(storetest.LayeredValue(i, i%3)) {
			t.Fatalf("key %d of version %d: %v", i, loss.Version, err)
		}
	}
}
