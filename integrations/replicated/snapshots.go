package replicated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/brockdb/brock"
	"github.com/hashicorp/raft"
)

// recordKey is the key of the record in the stable store.
var recordKey = []byte("brock/state")

// snapshots is the raft.SnapshotStore of a node. It keeps one snapshot: a header for raft, and the
// checkpoint that it names. The record in the stable store makes both count, in one step:
//
//   - A local snapshot counts once its checkpoint is durable. Then raft cuts the log.
//   - One of another node counts once its data is here and whole. Then raft restores it.
//   - If the node stops between, Open makes the state from the checkpoint.
type snapshots struct {
	n *Node

	mu     sync.Mutex // guards:
	record *record
	users  map[string]int // transfers of checkpoints that are under way
	base   *fetched       // the checkpoint that was fetched last; nil: none since Open
}

// fetched says where a checkpoint came from, so that the next one of the same node can be an increment.
type fetched struct {
	name, node string
	info       *brock.BackupInfo
}

// setRecord changes the record, durably, unless change returns an error.
func (s *snapshots) setRecord(change func(r *record) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.record
	if err := change(&next); err != nil {
		return err
	}
	if err := s.n.log.Store.Set(recordKey, next.encode()); err != nil {
		return err
	}
	s.record = &next
	return nil
}

func (s *snapshots) setState(number uint64) error {
	return s.setRecord(func(r *record) error {
		r.state = number
		return nil
	})
}

func (s *snapshots) current() *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

// newest returns the newest snapshot, and whether this node has made it; nil: there is none.
func (s *snapshots) newest() (meta *raft.SnapshotMeta, own bool) {
	r := s.current()
	return r.meta, r.snapshot != nil && r.snapshot.node == s.n.o.ID
}

// List implements raft.SnapshotStore.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	r := s.current()
	if r.snapshot == nil {
		return nil, nil
	}
	meta := *r.meta
	return []*raft.SnapshotMeta{&meta}, nil
}

// Open implements raft.SnapshotStore. What it returns is the header.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	r := s.current()
	if r.snapshot == nil || r.snapshot.name != id {
		return nil, nil, fmt.Errorf("replicated: snapshot %q is gone", id)
	}
	// Followers fetch it here, wherever it was made.
	h := *r.snapshot
	h.node, h.address = s.n.o.ID, string(s.n.address())
	meta := *r.meta
	return &meta, io.NopCloser(bytes.NewReader(h.encode())), nil
}

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &sink{s: s, meta: raft.SnapshotMeta{Version: version, Index: index, Term: term, Configuration: c, ConfigurationIndex: at, Size: headerSize}}, nil
}

// sink takes the header of a snapshot. Close makes it count.
type sink struct {
	s    *snapshots
	meta raft.SnapshotMeta
	b    []byte
	done bool
}

// Write implements io.Writer.
func (k *sink) Write(p []byte) (int, error) {
	if len(k.b)+len(p) > headerSize {
		return 0, fmt.Errorf("replicated: a snapshot that is no header: %w", brock.ErrFormat)
	}
	k.b = append(k.b, p...)
	return len(p), nil
}

// ID implements raft.SnapshotSink: the name of the checkpoint.
func (k *sink) ID() string {
	if h, err := decodeHeader(k.b); err == nil {
		return h.name
	}
	return ""
}

// Cancel implements raft.SnapshotSink.
func (k *sink) Cancel() error {
	k.done = true
	return nil
}

// Close implements raft.SnapshotSink. It fetches the checkpoint that the header names, unless it is
// here, and records it.
func (k *sink) Close() error {
	if k.done {
		return nil
	}
	k.done = true
	h, err := decodeHeader(k.b)
	if err != nil {
		return err
	}
	if k.meta.Index < h.applied.index {
		return fmt.Errorf("replicated: a snapshot of entry %d with entry %d: %w", k.meta.Index, h.applied.index, brock.ErrInvalid)
	}
	before := k.s.current().snapshot
	if h.node != k.s.n.o.ID {
		if err := k.s.checkNeeded(k.meta.Index, k.meta.Term); err != nil {
			return err
		}
		if before != nil && before.name == h.name {
			return nil // it was fetched before, and raft has not got to restore it
		}
		if err := k.s.fetch(h); err != nil {
			return err
		}
	}
	k.meta.ID = h.name
	err = k.s.setRecord(func(r *record) error {
		// Invariant: the snapshot never goes back, as the log may be cut behind it. One of another
		// node may have come while a local one was made.
		if r.meta != nil && r.meta.Index > k.meta.Index {
			return fmt.Errorf("replicated: there is a newer snapshot than that of entry %d", k.meta.Index)
		}
		r.snapshot, r.meta = h, &k.meta
		return nil
	})
	if err != nil {
		k.s.dropUnused(h.name)
		return err
	}
	if before != nil {
		k.s.dropUnused(before.name)
	}
	k.s.n.tuneTrailing()
	return nil
}

// checkNeeded refuses a snapshot of a leader to a node that has all of it and more: a request that was
// under way for long, or a leader that has stepped back too far. Raft would take it, forget what the
// node has done since, and delete entries that it has acknowledged.
func (s *snapshots) checkNeeded(index, term uint64) error {
	last, err := s.n.log.LastIndex()
	if err != nil {
		return err
	}
	var l raft.Log
	err = s.n.log.Store.GetLog(index, &l)
	if err != nil && err != raft.ErrLogNotFound {
		return err
	}
	if s.n.raft.AppliedIndex() > index || err == nil && l.Term == term && last > index {
		return fmt.Errorf("replicated: a snapshot of entry %d is not needed here: the log goes on", index)
	}
	return nil
}

// fetch makes a checkpoint of the one that another node has: by an increment, if the one before came
// from that node, too, and is still here; else by all of it. Every byte is verified.
func (s *snapshots) fetch(h *header) error {
	o := &s.n.o
	dir := o.checkpointDir(h.name)
	if err := removeAll(o.fs(), dir); err != nil {
		return err
	}
	s.mu.Lock()
	base, here := s.base, s.record.snapshot
	s.base = nil // if this fails, the next attempt takes all of it
	s.mu.Unlock()
	var since []byte
	if base != nil && base.node == h.node && here != nil && base.name == here.name {
		since, _ = base.info.MarshalBinary() // without an error for what Restore has returned
	}
	body, increment, err := s.n.peers.fetch(s.n.ctx, raft.ServerAddress(h.address), h.name, since)
	if err != nil {
		return fmt.Errorf("replicated: fetch checkpoint %s of %s: %w", h.name, h.node, err)
	}
	defer body.Close()
	stream := io.Reader(body)
	if increment {
		// A checkpoint gives the same stream on each node that has it.
		before, w := io.Pipe()
		defer before.Close()
		go func() { w.CloseWithError(s.backup(s.n.ctx, base.name, nil, w)) }()
		stream = io.MultiReader(before, body)
	}
	info, err := brock.Restore(s.n.ctx, stream, brock.Options{Dir: dir, FS: o.Store.FS, Keys: o.Store.Keys})
	if err != nil {
		return fmt.Errorf("replicated: fetch checkpoint %s of %s: %w", h.name, h.node, err)
	}
	s.n.logger.Info("fetched", "checkpoint", h.name, "from", h.node, "bytes", info.StreamBytes, "increment", info.Incremental)
	s.mu.Lock()
	s.base = &fetched{h.name, h.node, info}
	s.mu.Unlock()
	return nil
}

// backup writes a checkpoint to w; since is a BackupInfo, or nil.
func (s *snapshots) backup(ctx context.Context, name string, since *brock.BackupInfo, w io.Writer) (err error) {
	o := s.n.o.storeOptions(s.n.o.checkpointDir(name), &s.n.none)
	o.Mode = brock.ReadOnly
	db, err := brock.Open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.Backup(ctx, w, brock.BackupOptions{Since: since})
	return err
}

// send streams a checkpoint to another node, as an increment if since can be the backup before. It
// calls begin before the first byte.
func (s *snapshots) send(ctx context.Context, name string, since []byte, begin func(increment bool) error, w io.Writer) error {
	s.mu.Lock()
	if s.record.snapshot == nil || s.record.snapshot.name != name {
		s.mu.Unlock()
		return fmt.Errorf("%w: checkpoint %q is gone", errRefused, name)
	}
	s.users[name]++
	s.mu.Unlock()
	defer s.release(name)
	info := new(brock.BackupInfo)
	if info.UnmarshalBinary(since) != nil {
		info = nil
	}
	first := &firstWrite{w: w, begin: func() error { return begin(info != nil) }}
	err := s.backup(ctx, name, info, first)
	if err != nil && info != nil && first.begin != nil { // it is of another store
		info = nil
		err = s.backup(ctx, name, nil, first)
	}
	return err
}

// firstWrite calls begin before its first write.
type firstWrite struct {
	w     io.Writer
	begin func() error // nil: it was called
}

// Write implements io.Writer.
func (f *firstWrite) Write(p []byte) (int, error) {
	if begin := f.begin; begin != nil {
		f.begin = nil
		if err := begin(); err != nil {
			return 0, err
		}
	}
	return f.w.Write(p)
}

// release ends a transfer, and removes the checkpoint if it was the last one of an old snapshot.
func (s *snapshots) release(name string) {
	s.mu.Lock()
	if s.users[name]--; s.users[name] == 0 {
		delete(s.users, name)
	}
	s.mu.Unlock()
	s.dropUnused(name)
}

// dropUnused removes a checkpoint that neither the record nor a transfer needs. What can't be removed
// now, the next Open removes.
func (s *snapshots) dropUnused(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[name] > 0 || s.record.snapshot != nil && s.record.snapshot.name == name {
		return
	}
	_ = removeAll(s.n.o.fs(), s.n.o.checkpointDir(name))
}
