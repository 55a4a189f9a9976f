package badger

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock"
)

// errCutVersion means that a stored version is not one that this package has written.
var errCutVersion = errors.New("badger: a pair of the managed keyspace is no version of a key")

// oracle finds the conflicts of managed transactions, as Badger does: by the versions that the caller
// gives, which may be older than what is committed already. It remembers, for each key that was written
// since Open, the newest version of a transaction that wrote it. SetDiscardTs makes it forget.
type oracle struct {
	detects bool
	seed    maphash.Seed

	mu     sync.Mutex        // guards:
	newest map[uint64]uint64 // by the hash of the key
	floor  uint64            // versions up to it are forgotten
}

func newOracle(detects bool) *oracle {
	return &oracle{detects: detects, seed: maphash.MakeSeed(), newest: make(map[uint64]uint64)}
}

func (o *oracle) hash(key []byte) uint64 { return maphash.Bytes(o.seed, key) }

// admit notes the writes of a transaction, or returns ErrConflict if one of its reads has a version newer
// than readTs. written are hashes of keys.
func (o *oracle) admit(readTs uint64, reads, written []uint64, commitTs uint64) error {
	if !o.detects {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range reads {
		if o.newest[h] > readTs {
			return ErrConflict
		}
	}
	if commitTs <= o.floor {
		return nil
	}
	for _, h := range written {
		o.newest[h] = max(o.newest[h], commitTs)
	}
	return nil
}

// forget gives up what no transaction asks for that reads at ts or later.
func (o *oracle) forget(ts uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ts <= o.floor {
		return
	}
	o.floor = ts
	for h, v := range o.newest {
		if v <= ts {
			delete(o.newest, h)
		}
	}
}

// SetDiscardTs gives up the versions that no read at ts or later sees: RunValueLogGC and Flatten remove
// them. It is not stored: set it after each Open. It panics unless the store is managed.
func (db *DB) SetDiscardTs(ts uint64) {
	if !db.opt.managedTxns {
		panic("Cannot use SetDiscardTs with managedDB=false.")
	}
	db.discardTs.Store(ts)
	db.oracle.forget(ts)
}

// maximum is the greatest version of a managed store.
type maximum struct {
	scan    sync.Mutex // held while the store is scanned
	scanned atomic.Bool
	version atomic.Uint64 // greatest of the versions found and written
}

// note notes a version that is written.
func (m *maximum) note(version uint64) {
	for {
		old := m.version.Load()
		if version <= old || m.version.CompareAndSwap(old, version) {
			return
		}
	}
}

// load returns the greatest version. The first call reads all keys.
func (m *maximum) load(db *DB) (uint64, error) {
	m.scan.Lock()
	defer m.scan.Unlock()
	if m.scanned.Load() {
		return m.version.Load(), nil
	}
	err := db.data.View(func(txn *brock.Txn) error {
		for item, err := range txn.Items(brock.IteratorOptions{KeysOnly: true}) {
			if err != nil {
				return err
			}
			if _, version, ok := parseStored(item.Key()); ok {
				m.note(version)
			}
		}
		return nil
	})
	m.scanned.Store(err == nil && !db.opt.ReadOnly) // a store that is followed goes on
	return m.version.Load(), err
}

// MaxVersion returns the greatest version of the store; 0 if there is none or it can't be read. In
// managed mode the first call after Open reads all keys.
func (db *DB) MaxVersion() uint64 {
	if !db.opt.managedTxns {
		return max(db.store.Version(), db.maximum.version.Load()) // the first is 0 after Close
	}
	version, err := db.maximum.load(db)
	if err != nil {
		db.opt.Errorf("badger: the greatest version can't be read: %v", err)
	}
	return version
}

// getVersion is Txn.Get in managed mode.
func (t *Txn) getVersion(key []byte) (*Item, error) {
	if e := t.pending[string(key)]; e != nil {
		if e.flags&flagDeleted != 0 || isExpired(e.ExpiresAt) {
			return nil, ErrKeyNotFound
		}
		item := t.newItem()
		item.setOwn(e, t.readTs)
		return item, nil
	}
	t.noteRead(key)
	var room [256]byte
	lo := appendStored(room[:0], key, t.readTs)
	hi := appendBehind(lo[len(lo):], key)
	found, err := t.brock.First(lo, hi)
	if err != nil {
		return nil, readError(err)
	}
	item := t.newItem()
	if err := item.setVersion(found, nil); err != nil {
		return nil, err
	}
	if item.flags&flagExpires != 0 {
		if err := item.readHeader(); err != nil {
			return nil, err
		}
	}
	if item.IsDeletedOrExpired() {
		return nil, ErrKeyNotFound
	}
	return item, nil
}

// noteRead notes that an update of a managed store has read key.
func (t *Txn) noteRead(key []byte) {
	if o := t.db.oracle; o != nil && o.detects && t.update {
		t.reads = append(t.reads, o.hash(key))
	}
}

// setOwn makes an entry of the transaction itself, or one of the past, the item.
func (item *Item) setOwn(e *Entry, version uint64) {
	item.source, item.fixed, item.known = nil, true, true
	item.key, item.val, item.version = e.Key, e.Value, version
	item.flags, item.userMeta, item.expiresAt = e.flags, e.UserMeta, e.ExpiresAt
}

// setVersion makes a stored version the item. Its key is a part of the stored one, or in scratch.
func (item *Item) setVersion(source *brock.Item, scratch []byte) error {
	stem, version, ok := parseStored(source.Key())
	if !ok {
		return errCutVersion
	}
	item.source, item.fixed, item.known = source, true, false
	item.key, item.version, item.flags = userKeyOf(stem, scratch), version, source.Meta()
	item.expiresAt, item.userMeta, item.val = 0, 0, nil
	return nil
}

// readHeader reads what stands in front of the value, unless it is known. Few versions have that. If the
// item is shared, the caller holds the lock.
func (item *Item) readHeader() error {
	if item.known || !item.fixed {
		return nil
	}
	if item.flags&(flagExpires|flagUserMeta) != 0 {
		value, err := item.source.Value()
		if err != nil {
			return readError(err)
		}
		var ok bool
		if item.expiresAt, item.userMeta, ok = parseHeader(item.flags, value); !ok {
			return errCutVersion
		}
	}
	item.known = true
	return nil
}

// needHeader is readHeader, if the header has what flag says, for methods that can't return an error: the
// transaction does.
func (item *Item) needHeader(flag byte) {
	if item.known || item.flags&flag == 0 {
		return
	}
	if item.shared {
		item.txn.point.Lock()
		defer item.txn.point.Unlock()
	}
	if err := item.readHeader(); err != nil {
		item.txn.fail(err)
	}
}

// addPending keeps a write of a managed transaction until its version is known.
func (t *Txn) addPending(e *Entry) {
	own := *e
	room := make([]byte, 0, len(e.Key)+len(e.Value))
	room = append(append(room, e.Key...), e.Value...)
	own.Key, own.Value = room[:len(e.Key):len(e.Key)], room[len(e.Key):]
	if t.pending == nil {
		t.pending = make(map[string]*Entry)
	}
	t.pending[string(own.Key)] = &own
	t.writes++
}

// commitPending commits the writes of a managed transaction.
func (t *Txn) commitPending() error {
	w := newVersionWriter(t.db)
	if err := w.addAll(t.pending, t.commitTs); err != nil {
		return err
	}
	if err := t.admitPending(); err != nil {
		return err
	}
	return w.commit(brock.DefaultDurability)
}

// admitPending checks a managed transaction for conflicts.
func (t *Txn) admitPending() error {
	o := t.db.oracle
	var hashes []uint64
	if o.detects {
		hashes = make([]uint64, 0, len(t.pending))
		for key := range t.pending {
			hashes = append(hashes, maphash.String(o.seed, key))
		}
	}
	return o.admit(t.readTs, t.reads, hashes, t.commitTs)
}

// versionWriter writes versions of keys to a batch.
type versionWriter struct {
	db       *DB
	batch    *brock.Batch
	greatest uint64 // of the versions
	key      []byte // memory for stored keys
	value    []byte // memory for stored values
}

func newVersionWriter(db *DB) *versionWriter {
	return &versionWriter{db: db, batch: db.data.NewBatch()}
}

// add adds an entry at its version, or at that of the commit if it has none.
func (w *versionWriter) add(e *Entry, commitTs uint64) error {
	version := e.version
	if version == 0 {
		version = commitTs
	}
	b := brock.Entry{}
	w.key = appendStored(w.key[:0], e.Key, version)
	b.Key = w.key
	b.Meta, b.Value, w.value = e.storedValue(w.value)
	if err := w.batch.SetEntry(&b); err != nil {
		return err
	}
	w.greatest = max(w.greatest, version)
	return nil
}

// addAll adds the writes of a transaction.
func (w *versionWriter) addAll(writes map[string]*Entry, commitTs uint64) error {
	for _, e := range writes {
		if err := w.add(e, commitTs); err != nil {
			return err
		}
	}
	return nil
}

// commit commits what was added. Afterwards the writer is empty.
func (w *versionWriter) commit(d brock.Durability) error {
	// Before it is visible: MaxVersion is never less than what a reader sees.
	w.db.maximum.note(w.greatest)
	_, err := w.batch.Commit(context.Background(), d)
	w.batch.Reset()
	return err
}

// sweepBytes is how large a batch of removals gets.
const sweepBytes = 1 << 20

// sweep removes the versions of a managed store that SetDiscardTs gives up: of each key what is older
// than the NumVersionsToKeep newest ones at the discard version or below, older than one that
// WithDiscard has written, or at or below one that is deleted or has expired.
func (db *DB) sweep() error {
	discardTs := db.discardTs.Load()
	if !db.opt.managedTxns || discardTs == 0 {
		return nil
	}
	s := sweeper{discardTs: discardTs, keep: max(db.opt.NumVersionsToKeep, 1), batch: db.data.NewBatch()}
	return db.data.View(func(txn *brock.Txn) error {
		var item Item
		for source, err := range txn.Items(brock.IteratorOptions{KeysOnly: true}) {
			if err != nil {
				return err
			}
			if err := s.visit(source, &item); err != nil {
				return err
			}
		}
		return s.flush()
	})
}

// sweeper is a sweep under way.
type sweeper struct {
	discardTs uint64
	keep      int
	batch     *brock.Batch
	stem      []byte // of the key whose versions it visits
	kept      int    // versions of the key at the discard version or below that stay
	ended     bool   // all older versions of the key go
}

// visit looks at a version. Those of one key come newest first.
func (s *sweeper) visit(source *brock.Item, item *Item) error {
	stem, version, ok := parseStored(source.Key())
	if !ok {
		return fmt.Errorf("%w: %d bytes", errCutVersion, len(source.Key()))
	}
	if string(stem) != string(s.stem) {
		// Between two keys only: a crash between the removal of a delete and that of what it hides would
		// bring that back.
		if s.batch.Size() >= sweepBytes {
			if err := s.flush(); err != nil {
				return err
			}
		}
		s.stem, s.kept, s.ended = append(s.stem[:0], stem...), 0, false
	}
	if version > s.discardTs {
		return nil
	}
	if !s.ended {
		if err := item.setVersion(source, nil); err != nil {
			return err
		}
		if err := item.readHeader(); err != nil {
			return err
		}
		gone := item.IsDeletedOrExpired()
		if !gone {
			s.kept++
		}
		s.ended = gone || s.kept >= s.keep || item.DiscardEarlierVersions()
		if !gone {
			return nil
		}
	}
	return s.batch.Delete(source.Key())
}

func (s *sweeper) flush() error {
	_, err := s.batch.Commit(context.Background(), brock.Buffered)
	s.batch.Reset()
	return err
}
