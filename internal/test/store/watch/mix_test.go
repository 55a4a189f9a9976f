package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// mixed is a store that is written in all ways at random, and what it must have at each version.
type mixed struct {
	r     *rand.Rand
	mem   *vfs.Mem
	o     brock.Options
	db    *brock.DB
	model *replica          // as it is now
	past  []uint64          // versions of commits, ascending
	texts map[uint64]string // contents behind them
	sure  uint64            // up to this version nothing may be lost
	left  map[uint64]bool   // newest versions of stores that have lost the commit of it
	what  string

	rep     *replica // made of the feed
	gone    bool     // history may have been dropped since
	made    int      // files and stores
	snaps   []heldSnapshot
	streams [][]byte
	last    *brock.BackupInfo
	seen    map[string]int
}

type heldSnapshot struct {
	*brock.Snapshot
	rewritten int
}

func newMixed(t *testing.T) *mixed {
	m := &mixed{r: draw.Rand(t), mem: vfs.NewMem(), model: newReplica(), texts: map[uint64]string{0: ""}, past: []uint64{0}, rep: newReplica(), seen: map[string]int{}, left: map[uint64]bool{}}
	m.o = options(m.mem)
	m.o.Keys = storetest.DrawKeys(t)
	m.o.Tuning = brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10, RunFileSize: 64 << 10}
	m.o.MemoryLimit = 4 << 20
	m.o.KeyspaceDefaults = brock.KeyspaceOptions{ValueThreshold: 1000, Versions: brock.Retention{Manual: true}}
	m.db = assert.Must(brock.Open(m.o))
	m.rep.pull(t, m.db, brock.WatchOptions{}, 1, nil)
	return m
}

func (m *mixed) newest() uint64 { return m.past[len(m.past)-1] }

// add notes that the model is what the store has from version v on.
func (m *mixed) add(v uint64, durable bool) {
	m.past, m.texts[v] = append(m.past, v), m.model.text()
	if durable {
		m.sure = v
	}
}

// textAt is what must be there at a version, which may lie between commits.
func (m *mixed) textAt(v uint64) string {
	i, found := slices.BinarySearch(m.past, v)
	if !found {
		i--
	}
	return m.texts[m.past[i]]
}

func (m *mixed) key() []byte {
	if m.r.IntN(8) == 0 {
		return nil
	}
	return fmt.Appendf(nil, "k%02d", m.r.IntN(40))
}

func (m *mixed) value() []byte {
	switch m.r.IntN(10) {
	case 0:
		return storetest.RandomBytes(m.r.IntN(1000), 1000+m.r.IntN(20_000))
	case 1:
		return bytes.Repeat([]byte("compressible "), 100)
	case 2:
		return nil
	}
	return fmt.Appendf(nil, "%d", m.r.Uint64())
}

// keyspace is the default one (nil), or another one that there is.
func (m *mixed) keyspace(t *testing.T) (*brock.Keyspace, map[string]string) {
	names := slices.Sorted(maps.Keys(m.model.keyspaces))
	name := names[m.r.IntN(len(names))]
	if name == "" {
		return nil, m.model.keyspaces[""]
	}
	return storetest.OpenKeyspace(t, m.db, name), m.model.keyspaces[name]
}

func (m *mixed) above() uint64 {
	switch m.r.IntN(8) {
	case 0:
		return m.db.Version() + 1 + m.r.Uint64N(1<<34)
	case 1, 2:
		return m.db.Version() + 1
	}
	return m.db.Version() + 1 + m.r.Uint64N(30)
}

// sets are the writes of a transaction or a batch.
type sets interface {
	Set(key, value []byte) error
	SetEntry(e *brock.Entry) error
	Delete(key []byte) error
	DeleteRange(lo, hi []byte) error
}

// write writes at random, to the store and to the model, and ends with a pair that no other commit has.
func (m *mixed) write(t *testing.T, w sets, ks map[string]string, n int) {
	for range n {
		key := m.key()
		switch m.r.IntN(8) {
		case 0:
			assert.OK(t, w.Delete(key))
			delete(ks, string(key))
		case 1:
			hi := m.key()
			if len(hi) == 0 {
				hi = nil
			}
			assert.OK(t, w.DeleteRange(key, hi))
			maps.DeleteFunc(ks, func(k, _ string) bool { return k >= string(key) && (hi == nil || k < string(hi)) })
		case 2:
			v, expires := m.value(), time.Now().Add(time.Hour)
			assert.OK(t, w.SetEntry(&brock.Entry{Key: key, Value: v, Meta: 9, ExpiresAt: expires}))
			ks[string(key)] = shown(v, 9, time.UnixMilli(expires.UnixMilli()))
		default:
			v := m.value()
			assert.OK(t, w.Set(key, v))
			ks[string(key)] = shown(v, 0, time.Time{})
		}
	}
	mark := fmt.Append(nil, "mark ", m.r.Uint64())
	assert.OK(t, w.Set([]byte("~"), mark))
	ks["~"] = shown(mark, 0, time.Time{})
}

// load loads into a keyspace, sorted or not, instead of what is there or beside it. Sometimes others
// commit meanwhile.
func (m *mixed) load(t *testing.T) {
	ks, _ := m.keyspace(t)
	if ks == nil {
		ks = m.db.Default()
	}
	o := brock.LoadOptions{Sorted: m.r.IntN(3) > 0, Replace: m.r.IntN(3) == 0}
	n := m.r.IntN(30)
	if m.r.IntN(2) == 0 {
		n, o.MaxMemory = 200+m.r.IntN(300), 1
	}
	l := assert.Must(ks.NewLoader(t.Context(), o))
	defer l.Abort()
	loaded := map[string]string{}
	set := func(key, value []byte) {
		assert.OK(t, l.Set(key, value))
		loaded[string(key)] = shown(value, 0, time.Time{})
	}
	for i := range n {
		switch {
		case o.Sorted && i > 0:
			set(fmt.Appendf(nil, "k%02d%03d", i/10, i), m.value())
		case !o.Sorted:
			set(m.key(), m.value())
		default:
			set(m.key()[:0], m.value())
		}
	}
	if m.r.IntN(2) == 0 {
		m.commit(t)
	}
	if m.r.IntN(10) == 0 || m.model.keyspaces[ks.Name()] == nil {
		return
	}
	mark := fmt.Append(nil, "mark ", m.r.Uint64())
	set([]byte("~"), mark)
	v := assert.Must(l.Finish())
	if o.Replace {
		clear(m.model.keyspaces[ks.Name()])
	}
	maps.Copy(m.model.keyspaces[ks.Name()], loaded)
	m.add(v, true)
	m.seen[fmt.Sprintf("load sorted %v replace %v files %v", o.Sorted, o.Replace, n > 30)]++
}

// commit commits in one of the other ways.
func (m *mixed) commit(t *testing.T) {
	ks, pairs := m.keyspace(t)
	durable := m.r.IntN(2) == 0
	d := brock.Buffered
	if durable {
		d = brock.Synced
	}
	switch n := m.r.IntN(10); {
	case n < 4:
		o := brock.TxnOptions{Update: true, Durability: d}
		writes := 1 + m.r.IntN(6)
		if m.r.IntN(2) == 0 {
			o.CommitAt = m.above()
		}
		if m.r.IntN(4) == 0 {
			o.MaxMemory, writes, durable = 1, 150, true
			m.seen["large transaction"]++
		}
		assert.OK(t, m.db.UpdateContext(t.Context(), o, func(txn *brock.Txn) error {
			m.write(t, txn.In(ks), pairs, writes)
			return nil
		}))
		v := m.db.Version()
		if o.CommitAt != 0 {
			assert.Equal(t, m.what+": version", v, o.CommitAt)
		}
		m.add(v, durable)
	case n < 7:
		b := m.db.NewBatch()
		states := m.past
		for range 1 + m.r.IntN(4) {
			v := max(m.above(), states[len(states)-1]+1+m.r.Uint64N(3))
			assert.OK(t, b.At(v))
			ks, pairs := m.keyspace(t)
			m.write(t, b.In(ks), pairs, m.r.IntN(4))
			m.add(v, false)
			states = m.past
		}
		assert.Equal(t, m.what+": version of a batch", assert.Must(b.Commit(t.Context(), d)), m.newest())
		if durable {
			m.sure = m.newest()
		}
		m.seen["batch of versions"]++
	case n < 8:
		m.model.keyspaces[""]["counter"] = ""
		assert.Must(m.db.Default().Add(t.Context(), []byte("counter"), int64(m.r.IntN(100)-50)))
		m.model.keyspaces[""]["counter"] = shown(assert.Must(m.db.Get([]byte("counter"))), 0, time.Time{})
		m.add(m.db.Version(), true)
	case n < 9:
		v := m.above()
		assert.OK(t, m.db.AdvanceVersion(t.Context(), v))
		m.add(v, true)
	default:
		name := fmt.Sprint("ks ", m.r.IntN(3))
		if _, ok := m.model.keyspaces[name]; ok {
			assert.OK(t, storetest.OpenKeyspace(t, m.db, name).Drop(t.Context()))
			delete(m.model.keyspaces, name)
		} else {
			storetest.OpenKeyspace(t, m.db, name)
			m.model.keyspaces[name] = map[string]string{}
		}
		m.add(m.db.Version(), true)
	}
	assert.Equal(t, m.what+": newest version", m.db.Version(), m.newest())
}

// follow reads the feed of a store for a replica. Each commit must come, and make what the store had then.
func (m *mixed) follow(t *testing.T, db *brock.DB, rep *replica, buffered bool, most int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a commit that is left out would be waited for
	defer cancel()
	o := brock.WatchOptions{After: rep.at, Buffered: buffered}
	for {
		again := false
		for c, err := range db.Watch(ctx, o) {
			if errors.Is(err, brock.ErrVersionGone) && m.gone && !o.Snapshot {
				again = true
				break
			}
			if err != nil {
				t.Fatalf("%s: behind version %d: %v", m.what, rep.at.Version(), err)
			}
			if next, _ := slices.BinarySearch(m.past, rep.at.Version()+1); !c.Snapshot && c.Version != rep.at.Version() && (next == len(m.past) || m.past[next] != c.Version) && !m.left[c.Version] {
				t.Fatalf("%s: version %d follows %d; of %v", m.what, c.Version, rep.at.Version(), m.past)
			}
			if c.Snapshot {
				rep.keyspaces = map[string]map[string]string{"": {}}
			}
			for ch, err := range c.Changes() {
				assert.OK(t, err)
				rep.applyChange(t, ch)
			}
			rep.at = c.Position()
			if got, want := rep.text(), m.textAt(c.Version); got != want {
				t.Fatalf("%s: version %d is\n%s\nwant\n%s", m.what, c.Version, got, want)
			}
			if most--; c.Caught || most == 0 {
				break
			}
		}
		if !again {
			return
		}
		m.seen["begun again"]++
		o = brock.WatchOptions{Snapshot: true, Buffered: buffered}
	}
}

// reopen ends the store, by Close or by a loss of power, and opens it again.
func (m *mixed) reopen(t *testing.T) {
	for _, s := range m.snaps {
		s.Close()
	}
	m.snaps = nil
	if m.r.IntN(2) == 0 {
		assert.OK(t, m.db.Close())
		m.sure = m.newest()
	} else {
		crashed := m.mem.CrashClone(vfs.CrashOptions{Mode: vfs.CrashMode(m.r.IntN(4)), Seed: m.r.Uint64()})
		_ = m.db.Close()
		m.mem, m.o.FS = crashed, crashed
	}
	m.db = assert.Must(brock.Open(m.o))
	if v := m.db.Version(); v < m.sure {
		t.Fatalf("%s: version %d, want %d at least", m.what, v, m.sure)
	}
	now := contents(t, m.db, 0, true)
	for now != m.texts[m.newest()] {
		if m.newest() <= m.sure {
			t.Fatalf("%s: reopened\n%s\nwant that of %d at least\n%s", m.what, now, m.sure, m.texts[m.newest()])
		}
		delete(m.texts, m.newest())
		m.past = m.past[:len(m.past)-1]
		m.last, m.streams = nil, nil // a backup may have more
		m.seen["lost"]++
	}
	m.sure = m.newest()
	if v := m.db.Version(); v > m.sure {
		m.left[v] = true
	}
	m.reload(t)
}

// reload makes the model what the store has.
func (m *mixed) reload(t *testing.T) {
	m.model = newReplica()
	for _, ks := range slices.AppendSeq([]*brock.Keyspace{m.db.Default()}, m.db.Keyspaces()) {
		pairs := map[string]string{}
		assert.OK(t, ks.View(func(txn *brock.Txn) error {
			for item, err := range txn.All() {
				assert.OK(t, err)
				pairs[string(item.Key())] = shown(assert.Must(item.ValueCopy(nil)), item.Meta(), item.ExpiresAt())
			}
			return nil
		}))
		m.model.keyspaces[ks.Name()] = pairs
	}
}

// other is options of another store in the same file system.
func (m *mixed) other() brock.Options {
	m.made++
	o := m.o
	o.Dir = fmt.Sprint("other ", m.made)
	return o
}

// checkCopy opens a copy as of a version, compares it, and writes to it. Places of the source behind the
// copy are not in its history.
func (m *mixed) checkCopy(t *testing.T, o brock.Options, v uint64) {
	t.Helper()
	o.MustExist = true
	db, err := brock.Open(o)
	assert.OK(t, err)
	defer func() { assert.OK(t, db.Close()) }()
	assert.Equal(t, m.what+": version of a copy", db.Version(), v)
	assert.SameText(t, m.what+": copy", contents(t, db, 0, true), m.textAt(v))
	for _, at := range m.past {
		if at > 0 && at <= v && m.r.IntN(1+len(m.past)/5) == 0 {
			m.readAt(t, db, at)
		}
	}
	assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
	mark := assert.Must(brock.ParsePosition(m.rep.at.String()))
	assert.OK(t, db.Set(nil, []byte("of the copy")))
	assert.OK(t, db.AdvanceVersion(t.Context(), max(v+2, mark.Version()+2)))
	if mark.Version() > v {
		err := assert.LastError(db.Watch(t.Context(), brock.WatchOptions{After: mark}))
		assert.Error(t, m.what+": a place of the source in a copy", err, brock.ErrVersionGone)
	}
	rep := newReplica()
	rep.pull(t, db, brock.WatchOptions{Snapshot: true}, 1, nil)
	assert.SameText(t, m.what+": snapshot of the copy's feed", rep.text(), contents(t, db, 0, true))
	assert.OK(t, db.Compact(t.Context()))
	assert.SameText(t, m.what+": compacted copy", rep.text(), contents(t, db, 0, true))
}

// readAt reads the default keyspace as of a version.
func (m *mixed) readAt(t *testing.T, db *brock.DB, v uint64) {
	t.Helper()
	got := ""
	err := db.ViewContext(t.Context(), brock.TxnOptions{ReadAt: v}, func(txn *brock.Txn) error {
		r := newReplica()
		for item, err := range txn.All() {
			if err != nil {
				return err
			}
			r.keyspaces[""][string(item.Key())] = shown(assert.Must(item.ValueCopy(nil)), item.Meta(), item.ExpiresAt())
		}
		got = r.text()
		return nil
	})
	assert.OK(t, err)
	want := m.textAt(v)
	// Others come behind the default keyspace.
	if len(got) > len(want) || want[:len(got)] != got || len(want) > len(got) && want[len(got):len(got)+2] == `"" ` {
		t.Fatalf("%s: at version %d\n%s\nwant\n%s", m.what, v, got, want)
	}
}

// copy makes copies of a Snapshot, or of the store.
func (m *mixed) copy(t *testing.T) {
	if len(m.snaps) == 0 {
		return
	}
	i := m.r.IntN(len(m.snaps))
	s := m.snaps[i]
	v := s.Version()
	rep := newReplica()
	assert.OK(t, s.View(t.Context(), func(txn *brock.Txn) error {
		for item, err := range txn.All() {
			assert.OK(t, err)
			rep.keyspaces[""][string(item.Key())] = shown(assert.Must(item.ValueCopy(nil)), item.Meta(), item.ExpiresAt())
		}
		return nil
	}))
	if got, want := rep.text(), m.textAt(v); len(got) > len(want) || want[:len(got)] != got {
		t.Fatalf("%s: snapshot of version %d\n%s\nwant\n%s", m.what, v, got, want)
	}
	var err error
	to := m.other()
	if m.r.IntN(2) == 0 {
		err = s.Checkpoint(t.Context(), to.Dir)
	} else {
		var stream bytes.Buffer
		if _, err = s.Backup(t.Context(), &stream, brock.BackupOptions{Compress: true}); err == nil {
			_, restore := brock.Restore(t.Context(), &stream, to)
			assert.OK(t, restore)
		}
	}
	if errors.Is(err, brock.ErrKey) && s.rewritten < m.seen["rewritten"] {
		m.seen["a key is gone"]++
	} else {
		assert.OK(t, err)
		m.checkCopy(t, to, v)
		m.seen["copy"]++
	}
	if m.r.IntN(2) == 0 {
		s.Close()
		m.snaps = slices.Delete(m.snaps, i, i+1)
	}
}

// increment adds to the chain of backups, of the store or a Snapshot, and restores all of it.
func (m *mixed) increment(t *testing.T) {
	from := m.db.Backup
	if m.r.IntN(2) == 0 {
		s := assert.Must(m.db.Snapshot())
		defer s.Close()
		from = s.Backup
		if m.r.IntN(2) == 0 {
			m.commit(t)
		}
	}
	var stream bytes.Buffer
	info, err := from(t.Context(), &stream, brock.BackupOptions{Since: m.last})
	assert.OK(t, err)
	m.last, m.streams = info, append(m.streams, stream.Bytes())
	to := m.other()
	_, err = brock.Restore(t.Context(), bytes.NewReader(bytes.Join(m.streams, nil)), to)
	assert.OK(t, err)
	m.checkCopy(t, to, info.Version)
	m.seen[fmt.Sprint("increments ", min(len(m.streams), 3))]++
}

// followed looks at the store as a follower, and copies it.
func (m *mixed) followed(t *testing.T) {
	assert.OK(t, m.db.Sync(t.Context()))
	m.sure = m.newest()
	o := m.o
	o.Mode = brock.Follow
	f := assert.Must(brock.Open(o))
	defer func() { assert.OK(t, f.Close()) }()
	assert.SameText(t, m.what+": follower", contents(t, f, 0, true), m.texts[m.newest()])
	s := assert.Must(f.Snapshot())
	defer s.Close()
	v := s.Version()
	m.commit(t)
	m.load(t)
	m.commit(t)
	assert.OK(t, m.db.Sync(t.Context()))
	m.sure = m.newest()
	if m.r.IntN(3) == 0 {
		assert.OK(t, m.db.Compact(t.Context()))
	}
	rep := newReplica()
	rep.keyspaces, rep.at = map[string]map[string]string{}, m.rep.at
	for name, pairs := range m.rep.keyspaces {
		rep.keyspaces[name] = maps.Clone(pairs)
	}
	m.follow(t, f, rep, false, -1)
	var stream bytes.Buffer
	_, err := s.Backup(t.Context(), &stream, brock.BackupOptions{})
	assert.OK(t, err)
	to := m.other()
	_, err = brock.Restore(t.Context(), &stream, to)
	assert.OK(t, err)
	m.checkCopy(t, to, v)
	assert.Must(f.Refresh(t.Context()))
	streamed := newReplica()
	assert.OK(t, f.Default().Stream(t.Context(), brock.StreamOptions{Workers: 1}, func(_ int, items iter.Seq2[*brock.Item, error]) error {
		for item, err := range items {
			if err != nil {
				return err
			}
			streamed.keyspaces[""][string(item.Key())] = shown(assert.Must(item.ValueCopy(nil)), item.Meta(), item.ExpiresAt())
		}
		return nil
	}))
	assert.SameText(t, m.what+": Stream of a follower", streamed.text(), defaultOnly(m.model))
}

// salvaged makes another store of the files, with and without the manifest.
func (m *mixed) salvaged(t *testing.T) {
	// Without a manifest, only a later run tells that a large transaction was committed.
	assert.OK(t, m.db.Set([]byte("~"), []byte("the last")))
	m.model.keyspaces[""]["~"] = shown([]byte("the last"), 0, time.Time{})
	m.add(m.db.Version(), true)
	assert.OK(t, m.db.Flush(t.Context()))
	assert.OK(t, m.db.Close()) // a run that was being written would have to be taken for one that is lost
	crashed := m.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	from := m.o
	from.FS = crashed
	for _, lost := range []bool{false, true} {
		if lost {
			for _, name := range assert.Must(crashed.List(from.Dir)) {
				if name == "SUPER" || name[0] == 'M' {
					assert.OK(t, crashed.Remove(from.Dir+"/"+name))
				}
			}
		}
		to := from
		to.Dir = fmt.Sprint("salvaged ", lost)
		_, err := brock.Salvage(t.Context(), from, to, func(c *brock.CorruptionError) { t.Logf("%s: %v", m.what, c) })
		assert.OK(t, err)
		db := assert.Must(brock.Open(to))
		assert.SameText(t, fmt.Sprintf("%s: salvaged, lost %v", m.what, lost), contents(t, db, 0, true), m.texts[m.newest()])
		assert.OK(t, db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
		assert.OK(t, db.Close())
	}
}

// TestMix: a store that is written in all ways at once, in random order, over losses of power and key
// changes: its feed, its followers, its snapshots, its copies and what is salvaged of it have each
// version as it was committed.
func TestMix(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	seen := map[string]int{}
	for round := range rounds {
		m := newMixed(t)
		for step := range 160 {
			m.what = fmt.Sprintf("round %d, step %d", round, step)
			m.step(t)
		}
		assert.OK(t, m.db.Sync(t.Context()))
		m.what = fmt.Sprintf("round %d, end", round)
		m.follow(t, m.db, m.rep, true, -1)
		assert.SameText(t, m.what, m.rep.text(), contents(t, m.db, 0, true))
		assert.OK(t, m.db.Verify(t.Context(), func(c *brock.CorruptionError) { t.Error(c) }))
		for _, s := range m.snaps {
			s.Close()
		}
		m.salvaged(t)
		for k, n := range m.seen {
			seen[k] += n
		}
	}
	t.Log(seen)
}

func (m *mixed) step(t *testing.T) {
	switch n := m.r.IntN(60); {
	case n < 22:
		m.commit(t)
	case n < 29:
		m.load(t)
	case n < 36:
		m.follow(t, m.db, m.rep, false, 1+m.r.IntN(12))
		m.rep.at = assert.Must(brock.ParsePosition(m.rep.at.String()))
	case n < 40:
		assert.OK(t, m.db.Flush(t.Context()))
	case n < 42:
		assert.OK(t, m.db.Compact(t.Context()))
	case n < 44:
		_, err := m.db.Reclaim(t.Context())
		assert.OK(t, err)
	case n < 45:
		rewrite := m.r.IntN(2) == 0
		if err := m.db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: rewrite}); !errors.Is(err, brock.ErrUnsupported) {
			assert.OK(t, err)
			if rewrite {
				m.gone = true
				m.seen["rewritten"]++
			}
		}
	case n < 48:
		m.snaps = append(m.snaps, heldSnapshot{assert.Must(m.db.Snapshot()), m.seen["rewritten"]})
		assert.Equal(t, m.what+": version of a snapshot", m.snaps[len(m.snaps)-1].Version(), m.newest())
	case n < 51:
		m.copy(t)
	case n < 53:
		m.increment(t)
	case n < 55:
		m.followed(t)
	case n < 59:
		m.reopen(t)
	default:
		assert.SameText(t, m.what, contents(t, m.db, 0, true), m.texts[m.newest()])
		if v := m.past[m.r.IntN(len(m.past))]; v > 0 {
			m.readAt(t, m.db, v)
		}
	}
}
