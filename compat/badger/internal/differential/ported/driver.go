// Package ported runs calls of Badger's API on this module. It is the source of package genuine, but for
// this comment and the import: see TestDriversAreTheSame.
package ported

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/brockdb/brock/compat/badger"
	"github.com/brockdb/brock/compat/badger/pb"

	"github.com/brockdb/brock/compat/badger/internal/differential"
)

// store carries out calls.
type store struct {
	config differential.Config
	db     *badger.DB
	txns   [differential.Slots]*badger.Txn
	seqs   [differential.Slots]*badger.Sequence
	result differential.Result
}

// Open opens a store.
func Open(config differential.Config) (differential.Store, error) {
	s := &store{config: config}
	s.result.Read = make(map[string]bool)
	return s, s.open()
}

func (s *store) open() (err error) {
	o := badger.DefaultOptions(s.config.Dir).WithLogger(nil).WithNumVersionsToKeep(math.MaxInt32)
	o = o.WithInMemory(s.config.InMemory).WithDetectConflicts(!s.config.NoConflicts)
	// Badger drops versions when it compacts, which nobody can foresee. So it doesn't.
	o = o.WithNumLevelZeroTables(1000).WithNumLevelZeroTablesStall(2000)
	o = o.WithMemTableSize(8 << 20).WithValueLogFileSize(32 << 20).WithMetricsEnabled(false)
	if s.config.Versions > 0 {
		o = o.WithNumVersionsToKeep(s.config.Versions)
	}
	o = o.WithEncryptionKey(s.config.Key).WithIndexCacheSize(16 << 20)
	if s.config.InMemory {
		o = o.WithDir("").WithValueDir("")
	}
	if s.config.ValueThreshold > 0 {
		o = o.WithValueThreshold(s.config.ValueThreshold)
	}
	if s.config.Managed {
		s.db, err = badger.OpenManaged(o)
	} else {
		s.db, err = badger.Open(o)
	}
	return err
}

// Close ends open transactions and the store.
func (s *store) Close() error {
	s.endAll()
	return s.db.Close()
}

func (s *store) endAll() {
	for i, txn := range s.txns {
		if txn != nil {
			txn.Discard()
			s.txns[i] = nil
		}
	}
}

// Backup writes a backup.
func (s *store) Backup(w io.Writer, since uint64) (uint64, error) {
	if !s.config.Managed {
		return s.db.Backup(w, since)
	}
	stream := s.stream()
	stream.SinceTs = since
	return stream.Backup(w, since)
}

// Load reads a backup.
func (s *store) Load(r io.Reader) error { return s.db.Load(r, 16) }

// Stream returns what a Stream sends.
func (s *store) Stream() (pairs []*z.Buffer, err error) {
	stream := s.stream()
	stream.Send = func(buf *z.Buffer) error {
		pairs = append(pairs, z.NewBufferSlice(bytes.Clone(buf.Bytes())))
		return nil
	}
	return pairs, stream.Orchestrate(context.Background())
}

func (s *store) stream() *badger.Stream {
	if s.config.Managed {
		return s.db.NewStreamAt(math.MaxUint64)
	}
	return s.db.NewStream()
}

// Write writes pairs by a StreamWriter.
func (s *store) Write(pairs []*z.Buffer, incremental bool) error {
	w := s.db.NewStreamWriter()
	defer w.Cancel()
	prepare := w.Prepare
	if incremental {
		prepare = w.PrepareIncremental
	}
	if err := prepare(); err != nil {
		return err
	}
	for _, buf := range pairs {
		if err := w.Write(buf); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Merge adds values by a MergeOperator that appends.
func (s *store) Merge(key []byte, values [][]byte) ([]byte, error) {
	op := s.db.GetMergeOperator(key, func(old, added []byte) []byte {
		return append(bytes.Clone(old), added...)
	}, time.Hour)
	defer op.Stop()
	for _, v := range values {
		if err := op.Add(v); err != nil {
			return nil, err
		}
	}
	return op.Get()
}

// Watch subscribes to keys.
func (s *store) Watch(prefix []byte, ignore string) func() []string {
	ctx, cancel := context.WithCancel(context.Background())
	var lists []string
	ended := make(chan struct{})
	marks := make(chan struct{}, 1000)
	go func() {
		defer close(ended)
		_ = s.db.Subscribe(ctx, func(kv *badger.KVList) error {
			for _, p := range kv.GetKv() {
				switch key := string(p.GetKey()); {
				case key == "watched":
					marks <- struct{}{}
					continue
				case key == "!badger!txn": // the end of a commit of Badger
					continue
				}
				lists = append(lists, fmt.Sprintf("%x = %x meta %x until %d", p.GetKey(), p.GetValue(), p.GetMeta(), p.GetExpiresAt()))
			}
			return nil
		}, []pb.Match{{Prefix: prefix, IgnoreBytes: ignore}, {Prefix: []byte("watched")}})
	}()
	mark := func() {
		b := s.db.NewWriteBatch
		if s.config.Managed {
			b = func() *badger.WriteBatch { return s.db.NewWriteBatchAt(1) }
		}
		wb := b()
		_ = wb.Set([]byte("watched"), nil)
		_ = wb.Flush()
	}
	for begun := false; !begun; {
		mark()
		select {
		case <-marks:
			begun = true
		case <-time.After(time.Millisecond):
		}
	}
	return func() []string {
		time.Sleep(10 * time.Millisecond)
		for len(marks) > 0 {
			<-marks
		}
		mark()
		<-marks
		cancel()
		<-ended
		return lists
	}
}

// Do carries out one call.
func (s *store) Do(op *differential.Op) (r *differential.Result) {
	r = &s.result
	r.Reset()
	defer func() {
		if p := recover(); p != nil {
			r.Printf(" panic: %v", p)
		}
	}()
	s.do(r, op)
	switch op.Kind {
	case differential.Commit, differential.Batch, differential.Update, differential.Sequence, differential.Release:
		r.ReadTs = s.readTs()
	}
	return r
}

// readTs returns the newest version, 0 in a managed store.
func (s *store) readTs() uint64 {
	if s.config.Managed {
		return 0
	}
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	return txn.ReadTs()
}

func (s *store) do(r *differential.Result, op *differential.Op) {
	switch op.Kind {
	case differential.Begin:
		if s.config.Managed {
			s.txns[op.Slot] = s.db.NewTransactionAt(op.Version, op.Update)
		} else {
			s.txns[op.Slot] = s.db.NewTransaction(op.Update)
		}
	case differential.Get:
		s.get(r, s.txns[op.Slot], op.Key)
	case differential.Set, differential.Delete:
		printError(r, write(s.txns[op.Slot], &op.Write))
	case differential.Iterate, differential.KeyIterate:
		s.iterate(r, s.txns[op.Slot], op)
	case differential.Commit:
		txn := s.txns[op.Slot]
		s.txns[op.Slot] = nil
		defer txn.Discard()
		printError(r, s.commit(txn, op))
	case differential.Discard:
		s.txns[op.Slot].Discard()
		s.txns[op.Slot] = nil
	case differential.Batch:
		s.batch(r, op)
	case differential.Update:
		s.update(r, op)
	case differential.Sync:
		printError(r, s.db.Sync())
	case differential.SetDiscard:
		s.db.SetDiscardTs(op.Version)
	case differential.Sequence, differential.Release:
		s.sequence(r, op)
	default:
		s.whole(r, op)
	}
}

func (s *store) commit(txn *badger.Txn, op *differential.Op) error {
	done := make(chan error, 1)
	cb := func(err error) { done <- err }
	switch {
	case !op.Async && s.config.Managed:
		return txn.CommitAt(op.Version, nil)
	case !op.Async:
		return txn.Commit()
	case s.config.Managed:
		if err := txn.CommitAt(op.Version, cb); err != nil {
			return err
		}
	default:
		txn.CommitWith(cb)
	}
	return <-done
}

// sequence uses the sequence of a slot. Two of them have one key.
func (s *store) sequence(r *differential.Result, op *differential.Op) {
	seq := s.seqs[op.Slot]
	if seq == nil {
		var err error
		seq, err = s.db.GetSequence([]byte{'q', byte(op.Slot / 2)}, uint64(1+op.Slot))
		printError(r, err)
		s.seqs[op.Slot] = seq
		return // a call makes one version at most, so that the versions of both can be related
	}
	if op.Kind == differential.Release {
		printError(r, seq.Release())
		return
	}
	n, err := seq.Next()
	printError(r, err)
	r.Printf(" %d", n)
}

// whole carries out calls that concern the whole store.
func (s *store) whole(r *differential.Result, op *differential.Op) {
	s.endAll()
	switch op.Kind {
	case differential.DropPrefix:
		printError(r, s.db.DropPrefix(op.Prefixes...))
	case differential.DropAll:
		printError(r, s.db.DropAll())
	case differential.Reopen:
		if s.config.InMemory {
			return
		}
		printError(r, s.db.Close())
		s.seqs = [differential.Slots]*badger.Sequence{}
		printError(r, s.open())
	}
}

func (s *store) get(r *differential.Result, txn *badger.Txn, key []byte) {
	item, err := txn.Get(key)
	printError(r, err)
	if err == nil {
		printItem(r, item, true)
	}
}

func printItem(r *differential.Result, item *badger.Item, withValue bool) {
	r.Calls++
	r.Items = append(r.Items, differential.Item{
		Start: len(r.Text), Version: len(r.Versions), Key: string(item.Key()),
		Gone: item.IsDeletedOrExpired(), OnlyLatest: item.DiscardEarlierVersions(),
	})
	r.Printf("\n%x meta %d until %d gone %v latest %v", item.Key(), item.UserMeta(), item.ExpiresAt(),
		item.IsDeletedOrExpired(), item.DiscardEarlierVersions())
	r.Versions = append(r.Versions, item.Version())
	if !withValue {
		return
	}
	value, err := item.ValueCopy(nil)
	if err != nil {
		printError(r, err)
		return
	}
	r.Printf(" = %x", value)
	if item.IsDeletedOrExpired() {
		return
	}
	printError(r, item.Value(func(v []byte) error {
		if string(v) != string(value) {
			r.Printf(" another value %x", v)
		}
		return nil
	}))
}

func entryOf(w *differential.Write) *badger.Entry {
	e := badger.NewEntry(w.Key, w.Value).WithMeta(w.Meta)
	e.ExpiresAt = w.Expires
	if w.OnlyLatest {
		e = e.WithDiscard()
	}
	return e
}

func write(txn *badger.Txn, w *differential.Write) error {
	if w.Delete {
		return txn.Delete(w.Key)
	}
	return txn.SetEntry(entryOf(w))
}

func (s *store) iterate(r *differential.Result, txn *badger.Txn, op *differential.Op) {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.Reverse, o.AllVersions, o.SinceTs = op.Prefix, op.Reverse, op.AllVersions, op.Since
	o.PrefetchValues = !op.KeysOnly
	o.PrefetchSize = 4
	var it *badger.Iterator
	if op.Kind == differential.KeyIterate {
		it = txn.NewKeyIterator(op.Key, o)
	} else {
		it = txn.NewIterator(o)
	}
	defer it.Close()
	for i := range op.Writes {
		printError(r, write(txn, &op.Writes[i]))
	}
	for _, m := range op.Moves {
		if m.Rewind {
			it.Rewind()
		} else {
			it.Seek(m.Seek)
		}
		for step := 0; it.Valid(); step++ {
			item := it.Item()
			r.Read[string(item.Key())] = true
			printItem(r, item, !op.KeysOnly || (len(item.Key())+int(item.UserMeta()))%2 == 0)
			if step == m.Steps {
				break
			}
			it.Next()
		}
		r.EndMove()
		r.Printf("\nvalid %v %v\n", it.Valid(), it.ValidForPrefix(op.Prefix))
	}
}

func (s *store) batch(r *differential.Result, op *differential.Op) {
	var b *badger.WriteBatch
	switch {
	case !s.config.Managed:
		b = s.db.NewWriteBatch()
	case op.AtEach:
		b = s.db.NewManagedWriteBatch()
	default:
		b = s.db.NewWriteBatchAt(op.Version)
	}
	defer b.Cancel()
	for i := range op.Writes {
		w := &op.Writes[i]
		var err error
		switch {
		case op.AtEach && w.Delete:
			err = b.DeleteAt(w.Key, w.Version)
		case op.AtEach:
			err = b.SetEntryAt(entryOf(w), w.Version)
		case w.Delete:
			err = b.Delete(w.Key)
		default:
			err = b.SetEntry(entryOf(w))
		}
		printError(r, err)
	}
	if op.Fail {
		return
	}
	printError(r, b.Flush())
}

var errOwn = errors.New("the function's own error")

func (s *store) update(r *differential.Result, op *differential.Op) {
	err := s.db.Update(func(txn *badger.Txn) error {
		for _, key := range op.Gets {
			s.get(r, txn, key)
		}
		for i := range op.Writes {
			printError(r, write(txn, &op.Writes[i]))
		}
		if op.Fail {
			return errOwn
		}
		return nil
	})
	printError(r, err)
}

// known are the errors that programs compare with ==.
var known = []error{
	badger.ErrKeyNotFound, badger.ErrTxnTooBig, badger.ErrConflict, badger.ErrReadOnlyTxn,
	badger.ErrDiscardedTxn, badger.ErrEmptyKey, badger.ErrInvalidKey, badger.ErrBannedKey,
	badger.ErrInvalidRequest, badger.ErrManagedTxn, badger.ErrBlockedWrites, badger.ErrDBClosed,
	errOwn,
}

func printError(r *differential.Result, err error) {
	r.Calls++
	if err == nil {
		r.Printf(" ok")
		return
	}
	for _, k := range known {
		if err == k {
			r.Printf(" %v", k)
			return
		}
	}
	r.Printf(" other error %s", fmt.Sprint(err))
}
