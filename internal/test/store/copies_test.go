package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	truth "github.com/brockdb/brock/internal/test/model"
)

// backupChain is a full backup and its increments, all made alike.
type backupChain struct {
	plain   bool // the store was plain
	o       brock.BackupOptions
	backups [][]byte
}

// TestCopiesOfAnyStore makes backups, checkpoints, followers and salvaged copies of such stores
// while keyspaces come, change and go, and compares what is in them.
func TestCopiesOfAnyStore(t *testing.T) {
	inRandomStores(t, 4, 2, func(s *randomStore) {
		p := &copier{randomStore: s}
		for i := 0; i < 25 && !s.t.Failed(); i++ {
			p.step()
		}
	})
}

// copier makes copies of a store.
type copier struct {
	*randomStore
	chains  []*backupChain
	copies  int
	readsAt bool
}

func (p *copier) step() {
	switch n := p.r.IntN(20); {
	case n < 5:
		p.note("fill")
		p.fill()
	case n == 5:
		p.drop()
	case n == 6:
		p.change()
	case n < 13:
		p.backup()
	case n == 13:
		p.checkpoint()
	case n == 14:
		p.follow()
	case n == 15:
		p.salvage()
	case n == 16:
		p.reopen()
	case n == 18 && p.o.Keys == nil && *storetest.KeysFlag != "none" && p.r.IntN(4) == 0:
		p.note("encrypt")
		p.endReaders()
		assert.OK(p.t, p.db.Close())
		o := p.o
		o.Keys = storetest.MasterKey(1)
		assert.OK(p.t, brock.EncryptStore(p.t.Context(), o))
		p.o.Keys = o.Keys
		p.reopenClosed()
	case n == 17 && p.o.Keys != nil:
		o := brock.RotateOptions{Rewrite: p.r.IntN(2) == 0}
		p.note("rotate %v", o.Rewrite)
		p.endReaders()
		assert.OK(p.t, p.db.RotateKey(p.t.Context(), o))
	default:
		p.note("compact")
		assert.OK(p.t, p.db.Compact(p.t.Context()))
		_, err := p.db.Reclaim(p.t.Context())
		assert.OK(p.t, err)
	}
}

func (p *copier) endReaders() {
	for _, txn := range p.open {
		txn.Discard()
	}
	p.open = nil
}

func (p *copier) drop() {
	if len(p.spaces) == 1 || p.r.IntN(3) == 0 {
		name := fmt.Sprint("space", p.r.IntN(3))
		if slices.ContainsFunc(p.spaces, func(x *space) bool { return x.name() == name }) {
			return
		}
		p.note("make %s", name)
		p.addSpace(name)
		return
	}
	i := 1 + p.r.IntN(len(p.spaces)-1)
	p.note("drop %s", p.spaces[i].name())
	assert.OK(p.t, p.spaces[i].ks.Drop(p.t.Context()))
	p.spaces = slices.Delete(p.spaces, i, i+1)
	p.keyspacesChanged()
}

func (p *copier) change() {
	x := p.space()
	if x.ks == nil {
		return
	}
	o := p.spaceOptions()
	p.note("change %s", x.name())
	assert.OK(p.t, x.ks.SetOptions(o))
	if o.Versions = p.o.KeyspaceDefaults.Versions; o.Versions.Age != x.age {
		x.age, x.since = o.Versions.Age, p.db.Version()
	}
	x.threshold = o.ValueThreshold
}

func (p *copier) backup() {
	var c *backupChain
	if len(p.chains) > 0 && p.r.IntN(3) > 0 {
		c = p.chains[p.r.IntN(len(p.chains))]
	} else {
		c = &backupChain{o: brock.BackupOptions{Compress: p.r.IntN(2) == 0}}
	}
	c.plain = p.o.Keys == nil
	var out bytes.Buffer
	from, end := p.source()
	info, err := from.Backup(p.t.Context(), &out, c.o)
	end()
	p.note("backup %d: %v", len(c.backups), err)
	assert.OK(p.t, err)
	if !slices.Contains(p.chains, c) {
		p.chains = append(p.chains, c)
	}
	c.backups, c.o.Since = append(c.backups, out.Bytes()), info
	if p.r.IntN(3) == 0 { // the description survives being stored
		data, err := info.MarshalBinary()
		assert.OK(p.t, err)
		c.o.Since = new(brock.BackupInfo)
		assert.OK(p.t, c.o.Since.UnmarshalBinary(data))
	}
	all := bytes.Join(c.backups, nil)
	verified, err := brock.VerifyBackup(p.t.Context(), bytes.NewReader(all))
	assert.OK(p.t, err)
	assert.Equal(p.t, "version", verified.Version, p.db.Version())
	if p.r.IntN(2) == 0 {
		return
	}
	o := p.copyOptions()
	if c.plain {
		o.Keys = nil
	}
	if p.r.IntN(3) == 0 {
		o.ValueDir = o.Dir + "values"
	}
	_, err = brock.Restore(p.t.Context(), bytes.NewReader(all), o)
	assert.OK(p.t, err)
	p.compareCopy("restored", o, p.spaces, p.kept)
	if p.r.IntN(3) == 0 {
		if (o.Keys == nil) != (p.o.Keys == nil) {
			p.chains = nil // a chain belongs to a store that is plain, or to one that is encrypted
		}
		p.goOn(o)
	}
}

// source returns the store, or a follower of it, to be copied.
func (p *copier) source() (db *brock.DB, end func()) {
	if p.r.IntN(2) == 0 {
		return p.db, func() {}
	}
	assert.OK(p.t, p.db.Sync(p.t.Context()))
	o := p.o
	o.Mode = brock.Follow
	f, err := brock.Open(o)
	assert.OK(p.t, err)
	p.note("from a follower")
	return f, func() { assert.OK(p.t, f.Close()) }
}

// goOn leaves the store, and goes on in a copy.
func (p *copier) goOn(o brock.Options) {
	p.note("go on in %s", o.Dir)
	p.endReaders()
	assert.OK(p.t, p.db.Close())
	p.o = o
	p.reopenClosed()
}

func (p *copier) copyOptions() brock.Options {
	p.copies++
	o := p.o
	o.Dir, o.ValueDir = fmt.Sprint("copy", p.copies), ""
	return o
}

func (p *copier) checkpoint() {
	p.note("checkpoint")
	o := p.copyOptions()
	from, end := p.source()
	assert.OK(p.t, from.Checkpoint(p.t.Context(), o.Dir))
	end()
	p.compareCopy("checkpoint", o, p.spaces, p.kept)
	if p.r.IntN(3) == 0 {
		p.goOn(o)
	}
}

func (p *copier) follow() {
	p.note("follow")
	assert.OK(p.t, p.db.Sync(p.t.Context()))
	o := p.o
	o.Mode = brock.Follow
	f, err := brock.Open(o)
	assert.OK(p.t, err)
	defer f.Close()
	p.compare("follower", f, p.spaces, p.kept)
	for range 3 {
		p.fill()
		if p.r.IntN(3) == 0 {
			p.drop()
		}
		assert.OK(p.t, p.db.Sync(p.t.Context()))
		_, err = f.Refresh(p.t.Context())
		assert.OK(p.t, err)
		p.compare("follower later", f, p.spaces, p.kept)
	}
}

func (p *copier) salvage() {
	p.note("salvage")
	p.endReaders()
	assert.OK(p.t, p.db.Close())
	to := p.copyOptions()
	_, err := brock.Salvage(p.t.Context(), p.o, to, func(c *brock.CorruptionError) { p.t.Errorf("salvage: %v", c) })
	assert.OK(p.t, err)
	p.compareCopy("salvaged", to, p.spaces, false)
	p.reopenClosed()
}

func (p *copier) reopen() {
	p.note("reopen")
	p.endReaders()
	assert.OK(p.t, p.db.Close())
	o := p.o
	o.Mode = brock.ReadOnly
	if p.r.IntN(2) == 0 {
		o.Recover = brock.UpTo
	}
	db, err := brock.Open(o)
	assert.OK(p.t, err)
	p.compare("read-only", db, p.spaces, p.kept)
	assert.OK(p.t, db.Close())
	p.reopenClosed()
}

func (p *copier) reopenClosed() {
	db, err := brock.Open(p.o)
	assert.OK(p.t, err)
	p.db = db
	for _, x := range p.spaces[1:] {
		x.ks = storetest.OpenKeyspace(p.t, db, x.name())
	}
	p.compare("reopened", db, p.spaces, p.kept)
}

func (p *copier) compareCopy(what string, o brock.Options, spaces []*space, history bool) {
	o.MustExist = true
	db, err := brock.Open(o)
	assert.OK(p.t, err)
	p.compare(what, db, spaces, history)
	assert.OK(p.t, db.Verify(p.t.Context(), nil))
	if p.r.IntN(2) == 0 {
		assert.OK(p.t, db.Compact(p.t.Context()))
		p.compare(what+" and compacted", db, spaces, history)
	}
	assert.OK(p.t, db.Close())
}

// compare compares a copy of the store with the models of what it has.
func (p *copier) compare(what string, db *brock.DB, spaces []*space, history bool) {
	p.t.Helper()
	var want []string
	for _, x := range spaces {
		if x.ks != nil {
			want = append(want, x.name())
		}
	}
	slices.Sort(want)
	assert.Equal(p.t, what+": keyspaces", storetest.ListKeyspaces(db), strings.Join(want, " "))
	latest := uint64(0)
	for _, x := range p.spaces {
		latest = max(latest, x.m.Last())
	}
	assert.Equal(p.t, what+": version", db.Version(), latest)
	for _, x := range p.spaces {
		has := slices.Contains(spaces, x)
		if !has && x.ks != nil {
			continue
		}
		m := &x.m
		if !has {
			m = new(truth.Store)
		}
		var ks *brock.Keyspace
		if x.ks != nil {
			var err error
			ks, err = db.Keyspace(x.label)
			assert.OK(p.t, err)
		}
		assert.OK(p.t, db.View(func(txn *brock.Txn) error {
			p.compareSpace(what+" "+x.name(), txn.In(ks), m, false)
			if p.readsAt && has {
				p.readAt(what, db, []*space{x})
			}
			if history && has {
				p.compareSpace(what+", history, "+x.name(), txn.In(ks), m, true)
			}
			return nil
		}))
	}
}

func (p *copier) compareSpace(what string, txn *brock.Txn, m *truth.Store, history bool) {
	p.t.Helper()
	want := slices.Collect(m.Scan(truth.Scan{AllVersions: history}, 1<<60, uint64(p.now())))
	i := 0
	for item, err := range txn.Items(brock.IteratorOptions{AllVersions: history}) {
		assert.OK(p.t, err)
		if i == len(want) {
			p.t.Errorf("%s: %.40q@%d is too much", what, item.Key(), item.Version())
			return
		}
		e := want[i]
		i++
		gone := history && item.Deleted() && !e.Visible(uint64(p.now()))
		var value []byte
		if !item.Deleted() {
			value, err = item.Value()
			assert.OK(p.t, err)
		}
		if string(item.Key()) != e.Key || item.Version() != e.Version || !gone && (string(value) != e.Value || item.Meta() != e.Meta) {
			p.t.Errorf("%s: %.40q@%d=%.20q, want %.40q@%d=%.20q", what, item.Key(), item.Version(), value, e.Key, e.Version, e.Value)
			return
		}
	}
	if i < len(want) {
		p.t.Errorf("%s: %.40q@%d is missing", what, want[i].Key, want[i].Version)
	}
}

// TestReadAtOfAnyStore reads old versions of such stores and of their copies, while keyspaces with
// other retention come, change and go, and time passes.
func TestReadAtOfAnyStore(t *testing.T) {
	inRandomStores(t, 4, 2, func(s *randomStore) {
		s.kept = false
		p := &copier{randomStore: s, readsAt: true}
		for i := 0; i < 40 && !s.t.Failed(); i++ {
			switch n := s.r.IntN(12); {
			case n < 3:
				s.fill()
			case n < 5:
				d := time.Duration(s.r.IntN(8000)) * time.Millisecond
				s.note("%v pass", d)
				p.endReaders()
				s.clock.Add(d)
			case n == 5:
				p.retain()
			case n < 9:
				p.readAt("the store", s.db, s.spaces)
			default:
				p.step()
			}
		}
	})
}

// retain changes what a keyspace retains.
func (p *copier) retain() { p.retainIn(p.space()) }

func (p *copier) retainIn(x *space) {
	age, versions := []time.Duration{-1, 10 * time.Second, time.Hour}[p.r.IntN(3)], 3*p.r.IntN(2)
	p.note("%q retains %v, %d versions", x.name(), age, versions)
	if after := max(age, 0); after != x.age {
		x.age, x.since = after, p.db.Version()
	}
	if x.ks == nil {
		p.endReaders()
		assert.OK(p.t, p.db.Close())
		p.o.KeyspaceDefaults.Versions = brock.Retention{Age: max(age, 0), Versions: versions}
		p.reopenClosed()
	} else {
		o := p.spaceOptions()
		o.Versions = brock.Retention{Age: age, Versions: versions}
		assert.OK(p.t, x.ks.SetOptions(o))
		x.threshold = o.ValueThreshold
	}
}

// readAt reads old versions.
func (p *copier) readAt(what string, db *brock.DB, spaces []*space) {
	p.t.Helper()
	last := db.Version()
	if last == 0 {
		return
	}
	for range 4 {
		at := last - p.r.Uint64N(min(last, uint64(1+p.r.IntN(200))))
		until := p.now() // when it was the newest last
		for v := at + 1; v <= last; v++ {
			if time, ok := p.times[v]; ok {
				until = time
				break
			}
		}
		promised := func(x *space) bool {
			return !strings.HasPrefix(what, "salvaged") && x.age > 0 && at >= x.since && until >= p.now()-x.age.Milliseconds()
		}
		txn, err := db.Begin(p.t.Context(), brock.TxnOptions{ReadAt: at})
		if errors.Is(err, brock.ErrVersionGone) {
			if slices.ContainsFunc(spaces, promised) {
				p.t.Errorf("%s at %d of %d: %v", what, at, last, err)
			}
			continue
		}
		assert.OK(p.t, err)
		for _, x := range spaces {
			var ks *brock.Keyspace
			if x.ks != nil {
				ks = storetest.OpenKeyspace(p.t, db, x.name())
			}
			_, err := txn.In(ks).Has([]byte("k"))
			if errors.Is(err, brock.ErrVersionGone) {
				if promised(x) {
					p.t.Errorf("%s at %d of %d: %q: %v", what, at, last, x.name(), err)
				}
				continue
			}
			assert.OK(p.t, err)
			m := x.m.Clone()
			m.Forget(at)
			p.compareSpace(fmt.Sprintf("%s at %d of %d, %q", what, at, last, x.name()), txn.In(ks), m, false)
		}
		txn.Discard()
	}
}
