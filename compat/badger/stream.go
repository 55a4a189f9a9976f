package badger

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2/z"
	"google.golang.org/protobuf/proto"

	"github.com/brockdb/brock/compat/badger/pb"
)

const (
	// streamBatch is how many bytes of pairs a goroutine of a Stream collects before it sends them.
	streamBatch = 16 << 20
	// streamMax is the default of Stream.MaxSize.
	streamMax = 100 << 20
	// streamQueue is how many batches may wait for Send.
	streamQueue = 8
	// rangesPerThread is how many ranges there are for each goroutine: while one reads a range that
	// is larger than estimated, the others read the rest.
	rangesPerThread = 4
)

// Stream reads a store, or the keys with a prefix, with several goroutines, as of one version. The
// keys are cut into ranges; each is read in order by one goroutine, but the order of ranges is not
// defined. Make one by NewStream, set its fields, then call Orchestrate or Backup. It may run again,
// but not twice at a time.
type Stream struct {
	// Prefix chooses keys. Empty is all.
	Prefix []byte
	// NumGo is how many goroutines read.
	NumGo int
	// LogPrefix goes before log lines.
	LogPrefix string
	// ChooseKey says whether a key is wanted. It gets the key's newest version. nil is all keys. Calls
	// are concurrent.
	ChooseKey func(item *Item) bool
	// MaxSize bounds the bytes of a batch for Send. One list that is larger goes alone.
	MaxSize uint64
	// KeyToList makes the pairs of a key. It gets an iterator over all versions at the newest one of
	// key, and may move it forward up to the next key. nil is ToList. Calls are concurrent. A key
	// whose KeyToList returns an error is logged and left out.
	KeyToList func(key []byte, itr *Iterator) (*pb.KVList, error)
	// UseKeyToListWithThreadId has KeyToListWithThreadId called in the place of KeyToList.
	UseKeyToListWithThreadId bool
	// KeyToListWithThreadId is KeyToList that is told its goroutine, from 0. Calls of one goroutine
	// are one after the other.
	KeyToListWithThreadId func(key []byte, itr *Iterator, threadId int) (*pb.KVList, error)
	// FinishThread makes the pairs that end a range, with KeyToListWithThreadId.
	FinishThread func(threadId int) (*pb.KVList, error)
	// Send takes a batch of pairs: see BufferToKVList. The buffer is valid until it returns. Calls are
	// one after the other. An error ends the Stream.
	Send func(buf *z.Buffer) error
	// SinceTs leaves out versions up to this one.
	SinceTs uint64

	db          *DB
	readTs      uint64 // in managed mode
	doneMarkers bool
	lastID      atomic.Uint32 // StreamId of the last range
}

// NewStream returns a Stream as of the newest version. It panics if the store is managed.
func (db *DB) NewStream() *Stream {
	if db.opt.managedTxns {
		panic("This API can not be called in managed mode.")
	}
	return db.newStream(0)
}

// NewStreamAt returns a Stream as of a version. It panics unless the store is managed.
func (db *DB) NewStreamAt(readTs uint64) *Stream {
	if !db.opt.managedTxns {
		panic("This API can only be called in managed mode.")
	}
	return db.newStream(readTs)
}

func (db *DB) newStream(readTs uint64) *Stream {
	return &Stream{
		db:        db,
		readTs:    readTs,
		NumGo:     max(db.opt.NumGoroutines, 1),
		LogPrefix: "Badger.Stream",
		MaxSize:   streamMax,
	}
}

// SendDoneMarkers says whether a pair with StreamDone ends each range.
func (st *Stream) SendDoneMarkers(done bool) { st.doneMarkers = done }

// errRead is an error of the store itself. It ends a Stream, as what is missing would not show.
type errRead struct{ error }

func (e errRead) Unwrap() error { return e.error }

// ToList is the default of KeyToList: all versions of the key down to a deleted or expired one, only
// the newest if the store keeps one version of each key.
func (st *Stream) ToList(key []byte, itr *Iterator) (*pb.KVList, error) {
	list := &pb.KVList{}
	for ; itr.Valid(); itr.Next() {
		item := itr.Item()
		if item.IsDeletedOrExpired() || !bytes.Equal(key, item.Key()) {
			break
		}
		value, err := item.ValueCopy(nil)
		if err != nil {
			return nil, errRead{err}
		}
		list.Kv = append(list.Kv, &pb.KV{
			Key:       bytes.Clone(key),
			Value:     value,
			UserMeta:  []byte{item.UserMeta()},
			Version:   item.Version(),
			ExpiresAt: item.ExpiresAt(),
		})
		if st.db.opt.NumVersionsToKeep == 1 || item.DiscardEarlierVersions() {
			break
		}
	}
	return list, nil
}

// Orchestrate reads all ranges and sends their pairs. It returns the first error, also that of ctx.
// When it returns, its goroutines have ended.
func (st *Stream) Orchestrate(ctx context.Context) error {
	if st.Send == nil {
		return fmt.Errorf("badger: Stream without Send: %w", ErrInvalidRequest)
	}
	run, err := st.begin(ctx)
	if err != nil {
		return err
	}
	defer run.end()
	var readers sync.WaitGroup
	for i := range run.threads {
		readers.Go(func() { run.fail(run.threads[i].read()) })
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		run.fail(run.send())
	}()
	readers.Wait()
	close(run.batches)
	<-sent
	return run.err()
}

// streamRun is one Orchestrate under way.
type streamRun struct {
	*Stream
	ctx     context.Context
	cancel  context.CancelCauseFunc
	txn     *Txn
	ranges  chan *keyRange
	batches chan *z.Buffer
	threads []*streamThread
}

// begin opens the transaction and one iterator for each goroutine, all here: a transaction must not
// be used by several at a time, but its iterators may.
func (st *Stream) begin(ctx context.Context) (*streamRun, error) {
	run := &streamRun{Stream: st, batches: make(chan *z.Buffer, streamQueue)}
	run.ctx, run.cancel = context.WithCancelCause(ctx)
	if st.db.opt.managedTxns {
		run.txn = st.db.NewTransactionAt(st.readTs, false)
	} else {
		run.txn = st.db.NewTransaction(false)
	}
	threads := max(st.NumGo, 1)
	ranges := st.db.Ranges(st.Prefix, threads*rangesPerThread)
	run.ranges = make(chan *keyRange, len(ranges))
	for _, r := range ranges {
		run.ranges <- r
	}
	close(run.ranges)
	o := DefaultIteratorOptions
	o.AllVersions = true
	o.Prefix = st.Prefix
	o.SinceTs = st.SinceTs
	for i := range threads {
		it := run.txn.NewIterator(o)
		it.ThreadId = i
		it.Alloc = z.NewAllocator(1<<16, "Stream")
		run.threads = append(run.threads, &streamThread{streamRun: run, id: i, it: it})
	}
	return run, nil
}

func (run *streamRun) end() {
	for _, thread := range run.threads {
		thread.it.Close()
		thread.it.Alloc.Release()
	}
	run.txn.Discard()
	for batch := range run.batches {
		_ = batch.Release() // memory only
	}
	run.cancel(nil)
}

func (run *streamRun) fail(err error) {
	if err != nil {
		run.cancel(err)
	}
}

func (run *streamRun) err() error {
	err := context.Cause(run.ctx)
	if read, ok := err.(errRead); ok {
		return read.error
	}
	return err
}

// send hands the batches to Send until there are no more, or one fails.
func (run *streamRun) send() error {
	for {
		select {
		case batch, more := <-run.batches:
			if !more {
				return nil
			}
			err := run.ctx.Err()
			if err == nil {
				err = run.Send(batch)
			}
			_ = batch.Release() // memory only
			if err != nil {
				return err
			}
		case <-run.ctx.Done():
			return run.ctx.Err()
		}
	}
}

// streamThread is one goroutine that reads ranges.
type streamThread struct {
	*streamRun
	id       int
	it       *Iterator
	streamID uint32
	out      *z.Buffer
}

func (th *streamThread) read() error {
	defer func() {
		if th.out != nil {
			_ = th.out.Release() // memory only
		}
	}()
	for r := range th.ranges {
		th.streamID = th.lastID.Add(1)
		if err := th.readRange(r); err != nil {
			return err
		}
		if err := th.finishRange(); err != nil {
			return err
		}
	}
	return nil
}

func (th *streamThread) readRange(r *keyRange) error {
	it := th.it
	var last []byte
	for it.Seek(r.left); it.Valid(); {
		item := it.Item()
		if last != nil && bytes.Equal(item.Key(), last) {
			it.Next()
			continue
		}
		if r.right != nil && bytes.Compare(item.Key(), r.right) >= 0 {
			break
		}
		if err := th.ctx.Err(); err != nil {
			return err
		}
		last = append(last[:0], item.Key()...)
		if th.ChooseKey != nil && !th.ChooseKey(item) {
			continue
		}
		if err := th.readKey(item.KeyCopy(nil)); err != nil {
			return err
		}
	}
	return it.Err()
}

func (th *streamThread) readKey(key []byte) error {
	th.it.Alloc.Reset()
	var list *pb.KVList
	var err error
	switch {
	case th.UseKeyToListWithThreadId:
		list, err = th.KeyToListWithThreadId(key, th.it, th.id)
	case th.KeyToList != nil:
		list, err = th.KeyToList(key, th.it)
	default:
		list, err = th.ToList(key, th.it)
	}
	if read, ok := err.(errRead); ok {
		return read
	}
	if err != nil {
		th.db.opt.Warningf("%s: key %x is left out: %v", th.LogPrefix, key, err)
		return nil
	}
	return th.add(list)
}

func (th *streamThread) add(list *pb.KVList) error {
	if list == nil {
		return nil
	}
	for _, kv := range list.Kv {
		kv.StreamId = th.streamID
		if err := th.addPair(kv); err != nil {
			return err
		}
	}
	return nil
}

func (th *streamThread) addPair(kv *pb.KV) error {
	size := uint64(proto.Size(kv))
	if th.out != nil && uint64(th.out.LenNoPadding())+size > min(streamBatch, th.MaxSize) {
		if err := th.flush(); err != nil {
			return err
		}
	}
	if th.out == nil {
		th.out = z.NewBuffer(1<<16, "Stream")
	}
	return appendKV(kv, th.out)
}

// finishRange ends a range, and sends what there is: a receiver may count on a range's end.
func (th *streamThread) finishRange() error {
	if th.UseKeyToListWithThreadId && th.FinishThread != nil {
		list, err := th.FinishThread(th.id)
		if err != nil {
			return err
		}
		if err := th.add(list); err != nil {
			return err
		}
	}
	if th.doneMarkers {
		if err := th.addPair(&pb.KV{StreamId: th.streamID, StreamDone: true}); err != nil {
			return err
		}
	}
	return th.flush()
}

func (th *streamThread) flush() error {
	if th.out == nil || th.out.LenNoPadding() == 0 {
		return nil
	}
	select {
	case th.batches <- th.out:
		th.out = nil
		return nil
	case <-th.ctx.Done():
		return th.ctx.Err()
	}
}

// BufferToKVList returns the pairs of a batch. They keep no part of the buffer.
func BufferToKVList(buf *z.Buffer) (*pb.KVList, error) {
	list := &pb.KVList{}
	err := buf.SliceIterate(func(s []byte) error {
		kv := &pb.KV{}
		if err := proto.Unmarshal(s, kv); err != nil {
			return err
		}
		list.Kv = append(list.Kv, kv)
		return nil
	})
	return list, err
}

// KVToBuffer appends a pair to a batch. It panics if the pair can't be encoded, which no pair causes.
func KVToBuffer(kv *pb.KV, buf *z.Buffer) {
	if err := appendKV(kv, buf); err != nil {
		panic(err)
	}
}

func appendKV(kv *pb.KV, buf *z.Buffer) error {
	room := buf.SliceAllocate(proto.Size(kv))
	_, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(room[:0], kv)
	return err
}
