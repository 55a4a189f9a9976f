package badger

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/compat/badger/pb"
)

// entryOfKV returns the entry of a pair. It keeps the pair's slices.
func entryOfKV(kv *pb.KV) *Entry {
	e := &Entry{Key: kv.Key, Value: kv.Value, ExpiresAt: kv.ExpiresAt, version: kv.Version}
	if len(kv.UserMeta) > 0 {
		e.UserMeta = kv.UserMeta[0]
	}
	if len(kv.Meta) > 0 {
		if kv.Meta[0]&backupDelete != 0 {
			e.flags |= flagDeleted
		}
		if kv.Meta[0]&backupDiscard != 0 {
			e.flags |= flagDiscard
		}
	}
	return e
}

// managedPairs writes to a managed store, where each version is a key of its own: in any order.
type managedPairs struct {
	db         *DB
	writer     *brock.Writer
	newest     uint64
	key, value []byte // scratch
	ended      bool
}

func newManagedPairs(db *DB) *managedPairs {
	return &managedPairs{db: db, writer: db.data.NewWriter(context.Background())}
}

func (p *managedPairs) add(kv *pb.KV) error {
	e := entryOfKV(kv)
	p.newest = max(p.newest, e.version)
	var stored brock.Entry
	stored, p.key, p.value = e.managedEntry(p.key, p.value)
	return p.writer.SetEntry(&stored)
}

// managedEntry returns the entry as a managed store keeps it, in memory that the next call reuses.
func (e *Entry) managedEntry(key, room []byte) (stored brock.Entry, keyRoom, valueRoom []byte) {
	key = appendStored(key[:0], e.Key, e.version)
	meta, value, room := e.storedValue(room)
	return brock.Entry{Key: key, Value: value, Meta: meta}, key, room
}

func (p *managedPairs) finish() error {
	p.ended = true
	err := p.writer.Close()
	p.db.maximum.note(p.newest)
	return err
}

// abort ends the writer. What it has written stays.
func (p *managedPairs) abort() {
	if !p.ended {
		p.ended = true
		_ = p.writer.Close() // the caller has the error that led here
		p.db.maximum.note(p.newest)
	}
}

// orderedMemory is how many bytes of pairs an orderedPairs keeps in memory.
var orderedMemory int64 = 64 << 20

// orderedPairs writes to a store that is not managed: a commit of Brock must have a greater version
// than the one before. So it takes all pairs first, sorts them by version, and makes a commit of each
// version.
type orderedPairs struct {
	db     *DB
	last   *pb.KV // that was added
	memory []*pb.KV
	bytes  int64
	spill  *spillStore // what exceeds the memory; nil if nothing does
}

func newOrderedPairs(db *DB) *orderedPairs { return &orderedPairs{db: db} }

func (p *orderedPairs) add(kv *pb.KV) error {
	if kv.StreamDone {
		return nil
	}
	last := p.last
	if p.last = kv; last != nil && isShadow(kv, last) {
		kv = &pb.KV{Key: kv.Key, Version: kv.Version, Meta: kv.Meta, StreamDone: true}
	}
	p.memory = append(p.memory, kv)
	p.bytes += int64(len(kv.Key) + len(kv.Value) + 256)
	if p.bytes < orderedMemory {
		return nil
	}
	return p.spillMemory()
}

// isShadow says that kv is the delete that a backup has below an entry WithDiscard: it only repeats what
// that entry says. An orderedPairs marks it by StreamDone. It must not get a version of its own in the
// place of one that is used up.
func isShadow(kv, last *pb.KV) bool {
	return kv.Version+1 == last.Version && bytes.Equal(kv.Key, last.Key) &&
		entryOfKV(kv).flags&flagDeleted != 0 && entryOfKV(last).flags&flagDiscard != 0
}

func (p *orderedPairs) spillMemory() (err error) {
	if p.spill == nil {
		if p.spill, err = newSpillStore(p.db); err != nil {
			return err
		}
	}
	for _, kv := range p.memory {
		if err := p.spill.add(kv); err != nil {
			return err
		}
	}
	p.memory, p.bytes = nil, 0
	return nil
}

func (p *orderedPairs) finish() error {
	commits, err := newVersionCommits(p.db)
	if err != nil {
		return err
	}
	defer commits.end()
	if p.spill != nil {
		if err := p.spillMemory(); err != nil {
			return err
		}
		if err := p.spill.each(commits.add); err != nil {
			return err
		}
		return commits.finish()
	}
	slices.SortStableFunc(p.memory, func(a, b *pb.KV) int { return cmp.Compare(a.Version, b.Version) })
	for _, kv := range p.memory {
		if err := commits.add(kv); err != nil {
			return err
		}
	}
	return commits.finish()
}

func (p *orderedPairs) abort() {
	p.memory = nil
	if p.spill != nil {
		p.spill.remove()
		p.spill = nil
	}
}

// spillStore sorts pairs by version on the disk. It is a store of Brock of its own, and not a keyspace
// of the store that is loaded: there its commits would use up the versions of the backup. Its key is
// random and nowhere but in memory.
type spillStore struct {
	dir    string
	store  *brock.DB
	writer *brock.Writer
	count  uint64 // of pairs, so that those of one version stay in order
}

func newSpillStore(db *DB) (*spillStore, error) {
	dir := filepath.Clean(db.opt.Dir) + ".load"
	if db.opt.InMemory {
		temporary, err := os.MkdirTemp("", "brock-load-")
		if err != nil {
			return nil, err
		}
		dir = temporary
	}
	// The process of an earlier load may have been killed. Nobody else can be loading: the store beside
	// it is locked by this process.
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	store, err := brock.Open(brock.Options{
		Dir: dir, Keys: brock.StaticKey(key), Durability: brock.Buffered, MemoryLimit: 32 << 20,
	})
	if err != nil {
		return nil, err
	}
	return &spillStore{dir: dir, store: store, writer: store.NewWriter(context.Background())}, nil
}

func (s *spillStore) add(kv *pb.KV) error {
	value, err := proto.Marshal(kv)
	if err != nil {
		return err
	}
	key := binary.BigEndian.AppendUint64(nil, kv.Version)
	key = binary.BigEndian.AppendUint64(key, s.count)
	s.count++
	return s.writer.Set(key, value)
}

// each calls fn with the pairs in the order of their versions.
func (s *spillStore) each(fn func(kv *pb.KV) error) error {
	if err := s.writer.Flush(); err != nil {
		return err
	}
	return s.store.View(func(txn *brock.Txn) error {
		for item, err := range txn.All() {
			if err != nil {
				return err
			}
			value, err := item.ValueCopy(nil)
			if err != nil {
				return err
			}
			kv := &pb.KV{}
			if err := proto.Unmarshal(value, kv); err != nil {
				return err
			}
			if err := fn(kv); err != nil {
				return err
			}
		}
		return nil
	})
}

// remove deletes the store. Errors are not the load's: the next one removes what is left.
func (s *spillStore) remove() {
	_ = s.writer.Close()
	_ = s.store.Close()
	_ = os.RemoveAll(s.dir)
}

const (
	// versionGroup is how many bytes of one version are kept until the version is complete.
	versionGroup = 256 << 10
	// versionBatch is how many bytes of several versions make a batch.
	versionBatch = 1 << 20
)

// versionCommits commits pairs that come in the order of their versions, each version with that number
// as long as the store's own is below.
type versionCommits struct {
	db     *DB
	before *brock.Txn // the store before the load
	drops  drops      // before the load
	last   uint64     // the version of the last commit

	group      []*pb.KV // pairs of one version that are not in a batch
	groupBytes int
	version    uint64 // of the group in the backup
	shifted    bool   // the version is not above the last commit, and so gets another number
	large      bool   // the batch is of this version only, and takes the pairs as they come

	batch      *brock.Batch
	batchBytes int
	versions   int // in the batch
}

func newVersionCommits(db *DB) (*versionCommits, error) {
	before, err := db.store.Begin(context.Background(), brock.TxnOptions{})
	if err != nil {
		return nil, err
	}
	drops, err := db.readDrops(before)
	if err != nil {
		before.Discard()
		return nil, err
	}
	return &versionCommits{db: db, before: before, drops: drops, last: db.store.Version(), batch: db.data.NewBatch()}, nil
}

func (c *versionCommits) end() { c.before.Discard() }

func (c *versionCommits) add(kv *pb.KV) error {
	if kv.Version == 0 && kv.StreamDone {
		return nil // Brock has no version 0
	}
	if kv.Version != c.version || len(c.group) == 0 && !c.large {
		if err := c.endVersion(); err != nil {
			return err
		}
		c.version, c.shifted = kv.Version, kv.Version <= c.last
	}
	if c.shifted {
		if kv.StreamDone { // see isShadow
			return nil
		}
		if hidden, err := c.isHidden(kv); hidden || err != nil {
			return err
		}
	}
	if c.large {
		return c.write(kv)
	}
	c.group = append(c.group, kv)
	c.groupBytes += len(kv.Key) + len(kv.Value) + 64
	if c.groupBytes < versionGroup {
		return nil
	}
	// A version with many pairs has a batch of its own, as only that may be larger than memory.
	if err := c.commit(); err != nil {
		return err
	}
	c.large = true
	return c.writeGroup()
}

// isHidden says whether the store had a newer version of the key before the load, and has not dropped it.
func (c *versionCommits) isHidden(kv *pb.KV) (bool, error) {
	next, stop := iter.Pull2(c.before.Versions(kv.Key))
	defer stop()
	newest, err, found := next()
	if !found || err != nil {
		return false, err
	}
	return newest.Version() >= kv.Version && newest.Version() > c.drops.last(kv.Key), nil
}

// endVersion puts the pairs of a version into the batch: it is complete.
func (c *versionCommits) endVersion() error {
	if c.large {
		c.large = false
		return c.commit()
	}
	if len(c.group) == 0 {
		return nil
	}
	if c.batchBytes+c.groupBytes > versionBatch || c.versions == brock.MaxBatchVersions {
		if err := c.commit(); err != nil {
			return err
		}
	}
	return c.writeGroup()
}

// writeGroup writes the pairs of a version, as the next one of the batch.
func (c *versionCommits) writeGroup() error {
	version := max(c.version, c.last+1)
	if err := c.batch.At(version); err != nil {
		return err
	}
	c.last = version
	c.versions++
	c.batchBytes += c.groupBytes
	for _, kv := range c.group {
		if err := c.write(kv); err != nil {
			return err
		}
	}
	c.group, c.groupBytes = c.group[:0], 0
	return nil
}

func (c *versionCommits) write(kv *pb.KV) error {
	e := entryOfKV(kv)
	if e.flags&flagDeleted != 0 {
		return c.batch.Delete(e.Key)
	}
	entry := e.toBrock()
	return c.batch.SetEntry(&entry)
}

func (c *versionCommits) commit() error {
	if c.batch.Len() == 0 {
		return nil
	}
	_, err := c.batch.Commit(context.Background(), brock.DefaultDurability)
	c.batch.Reset()
	c.batchBytes, c.versions = 0, 0
	return err
}

func (c *versionCommits) finish() error { return errors.Join(c.endVersion(), c.commit()) }
