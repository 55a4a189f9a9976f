package badger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/dgraph-io/ristretto/v2/z"
	"google.golang.org/protobuf/proto"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/compat/badger/pb"
)

// StreamWriter writes what a Stream has sent: pairs of several streams, each in the order of keys and,
// of a key, with the newest version first. Keys of different streams must not be the same. Call
// Prepare or PrepareIncremental, Write for each batch, then Flush. Cancel after that does nothing, so it
// can be deferred. Any number of goroutines may call Write.
//
// In a managed store each stream is loaded directly into sorted files, and is visible once it is done.
// In another one the pairs are sorted by version first, as in DB.Load, and become visible by Flush;
// there the order in a stream doesn't matter.
type StreamWriter struct {
	db *DB

	mu      sync.Mutex
	streams map[uint32]*streamLoad // of a managed store; ended ones are nil
	ordered *orderedPairs          // of another one; nil: nothing was written
	done    map[uint32]bool        // streams that have ended, in a store that is not managed
	newest  uint64
	ended   bool
	err     error // the first error: later calls return it
}

// streamLoad is one stream on its way to a sorted file.
type streamLoad struct {
	loader     *brock.Loader
	key, value []byte // scratch
}

var errWriterEnded = errors.New("badger: StreamWriter has finished")

// NewStreamWriter returns a StreamWriter.
func (db *DB) NewStreamWriter() *StreamWriter {
	return &StreamWriter{db: db, streams: map[uint32]*streamLoad{}, done: map[uint32]bool{}}
}

// Prepare deletes everything in the store. Other writes are not stopped.
func (sw *StreamWriter) Prepare() error { return sw.db.DropAll() }

// PrepareIncremental prepares for writing to what is there.
func (sw *StreamWriter) PrepareIncremental() error { return sw.db.checkOpen() }

// Write writes a batch of a Stream. A pair with StreamDone ends its stream; Write panics if a pair
// follows it. After an error all later calls return it.
func (sw *StreamWriter) Write(buf *z.Buffer) error {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	if err := sw.checkLocked(); err != nil {
		return err
	}
	err := buf.SliceIterate(func(s []byte) error {
		kv := &pb.KV{}
		if err := proto.Unmarshal(s, kv); err != nil {
			return err
		}
		return sw.writePairLocked(kv)
	})
	sw.err = writeError(err)
	return sw.err
}

func (sw *StreamWriter) checkLocked() error {
	if sw.ended {
		return errWriterEnded
	}
	return sw.err
}

func (sw *StreamWriter) writePairLocked(kv *pb.KV) error {
	load, known := sw.streams[kv.StreamId]
	if kv.StreamDone {
		return sw.endStreamLocked(kv.StreamId)
	}
	if known && load == nil || sw.done[kv.StreamId] {
		panic(fmt.Sprintf("write performed on closed stream: %d", kv.StreamId))
	}
	sw.newest = max(sw.newest, kv.Version)
	if !sw.db.opt.managedTxns {
		if sw.ordered == nil {
			sw.ordered = newOrderedPairs(sw.db)
		}
		return sw.ordered.add(kv)
	}
	if load == nil {
		loader, err := sw.db.data.NewLoader(context.Background(), brock.LoadOptions{Sorted: true})
		if err != nil {
			return err
		}
		load = &streamLoad{loader: loader}
		sw.streams[kv.StreamId] = load
	}
	return load.add(kv)
}

func (l *streamLoad) add(kv *pb.KV) error {
	e := entryOfKV(kv)
	var stored brock.Entry
	stored, l.key, l.value = e.managedEntry(l.key, l.value)
	if err := l.loader.SetEntry(&stored); err != nil {
		return fmt.Errorf("stream %d: key %x at version %d: %w", kv.StreamId, kv.Key, kv.Version, err)
	}
	return nil
}

// endStreamLocked makes a stream visible. One of which nothing came is ignored, as in Badger.
func (sw *StreamWriter) endStreamLocked(id uint32) error {
	if !sw.db.opt.managedTxns {
		sw.done[id] = true
		return nil
	}
	load := sw.streams[id]
	if load == nil {
		return nil
	}
	sw.streams[id] = nil
	_, err := load.loader.Finish()
	return err
}

// Flush ends all streams. When it returns nil, everything that was written is durable and visible.
func (sw *StreamWriter) Flush() error {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	if err := sw.checkLocked(); err != nil {
		return err
	}
	sw.ended = true
	sw.err = writeError(sw.flushLocked())
	return sw.err
}

func (sw *StreamWriter) flushLocked() error {
	if !sw.db.opt.managedTxns {
		if sw.ordered == nil {
			return nil
		}
		err := sw.ordered.finish()
		sw.ordered.abort()
		if err != nil {
			return err
		}
		return sw.db.Sync()
	}
	defer sw.db.maximum.note(sw.newest)
	for id := range sw.streams {
		if err := sw.endStreamLocked(id); err != nil {
			sw.abortLocked()
			return err
		}
	}
	return nil
}

// Cancel gives up what was not flushed, but for streams of a managed store that are done. After Flush
// it does nothing.
func (sw *StreamWriter) Cancel() {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	if sw.ended {
		return
	}
	sw.ended = true
	sw.abortLocked()
	sw.db.maximum.note(sw.newest)
}

func (sw *StreamWriter) abortLocked() {
	for _, load := range sw.streams {
		if load != nil {
			load.loader.Abort()
		}
	}
	if sw.ordered != nil {
		sw.ordered.abort()
	}
}
