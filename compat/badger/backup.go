package badger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/dgraph-io/ristretto/v2/z"
	"google.golang.org/protobuf/proto"

	"github.com/brockdb/brock/compat/badger/pb"
)

// Bits of KV.Meta in a backup.
const (
	backupDelete  byte = 1 // the key has no value at this version
	backupDiscard byte = 4 // earlier versions are gone
)

// backupListMax bounds a list of a backup that is read: no protobuf message is longer.
const backupListMax = 1<<31 - 1

// Backup writes the versions above since to w in Badger's format, deletes included, and returns the
// greatest of them: give it to the next Backup for what is newer. Others read and write meanwhile. It
// panics if the store is managed: use NewStreamAt and Stream.Backup.
func (db *DB) Backup(w io.Writer, since uint64) (uint64, error) {
	stream := db.NewStream()
	stream.LogPrefix = "DB.Backup"
	stream.SinceTs = since
	return stream.Backup(w, since)
}

// Backup is DB.Backup of what the Stream reads. It uses KeyToList and Send of the Stream for itself.
// since is the version below which nothing may come; SinceTs chooses what is read.
func (st *Stream) Backup(w io.Writer, since uint64) (uint64, error) {
	st.KeyToList = func(key []byte, itr *Iterator) (*pb.KVList, error) {
		return backupKey(key, itr, since)
	}
	st.UseKeyToListWithThreadId = false
	var newest uint64
	st.Send = func(buf *z.Buffer) error {
		all, err := BufferToKVList(buf)
		if err != nil {
			return err
		}
		list := &pb.KVList{}
		for _, kv := range all.Kv {
			newest = max(newest, kv.Version)
			if !kv.StreamDone {
				list.Kv = append(list.Kv, kv)
			}
		}
		return writeList(w, list)
	}
	if err := st.Orchestrate(context.Background()); err != nil {
		return 0, err
	}
	return newest, nil
}

// backupKey makes the pairs of one key: its versions down to a delete, an expired one, or one that
// ends the history.
func backupKey(key []byte, itr *Iterator, since uint64) (*pb.KVList, error) {
	list := &pb.KVList{}
	for ; itr.Valid(); itr.Next() {
		item := itr.Item()
		if !bytes.Equal(item.Key(), key) {
			break
		}
		if item.Version() < since {
			return nil, errRead{fmt.Errorf("backup: version %d of key %x is below %d", item.Version(), key, since)}
		}
		kv := &pb.KV{
			Key:       bytes.Clone(key),
			UserMeta:  []byte{item.UserMeta()},
			Version:   item.Version(),
			ExpiresAt: item.ExpiresAt(),
			Meta:      []byte{backupMeta(item)},
		}
		list.Kv = append(list.Kv, kv)
		if !item.IsDeletedOrExpired() {
			value, err := item.ValueCopy(nil)
			if err != nil {
				return nil, errRead{err}
			}
			kv.Value = value
		}
		if item.DiscardEarlierVersions() {
			// Whoever loads this keeps what it has below. A delete there hides it.
			list.Kv = append(list.Kv, &pb.KV{
				Key:     bytes.Clone(key),
				Version: item.Version() - 1,
				Meta:    []byte{backupDelete},
			})
			break
		}
		if item.IsDeletedOrExpired() {
			break
		}
	}
	return list, nil
}

func backupMeta(item *Item) (meta byte) {
	if item.IsDeletedOrExpired() && !isExpired(item.ExpiresAt()) {
		meta |= backupDelete
	}
	if item.DiscardEarlierVersions() {
		meta |= backupDiscard
	}
	return meta
}

// writeList writes a list after its length.
func writeList(w io.Writer, list *pb.KVList) error {
	frame, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 8, 8+proto.Size(list)), list)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(frame, uint64(len(frame)-8))
	_, err = w.Write(frame)
	return err
}

// readList reads the next list. It returns io.EOF at the end of the backup.
func readList(r io.Reader, room *bytes.Buffer) (*pb.KVList, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint64(head[:])
	if size > backupListMax {
		return nil, fmt.Errorf("list of %d bytes: %w", size, ErrInvalidDump)
	}
	// Not by one allocation of what the file says: it may say anything.
	room.Reset()
	if _, err := io.CopyN(room, r, int64(size)); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	list := &pb.KVList{}
	if err := proto.Unmarshal(room.Bytes(), list); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidDump, err)
	}
	return list, nil
}

// Load reads a backup of this module or of Badger. Versions stay as they are if they are above the
// store's newest one, as in an empty store, or if the store is managed. Else a version that would be
// hidden by a newer one of its key is left out, and the others get new versions in the old order.
//
// In a managed store the pairs become visible bit by bit, and after an error a part of them is there.
// In another one nothing is written before the whole backup was read. What exceeds 64 MB waits in a
// directory beside the store's, its name with .load at the end, and encrypted. maxPendingWrites is
// ignored.
//
// A backup that is cut short or damaged returns an error: io.ErrUnexpectedEOF or ErrInvalidDump.
func (db *DB) Load(r io.Reader, maxPendingWrites int) error {
	loader := db.NewKVLoader(maxPendingWrites)
	defer loader.pairs.abort()
	br := bufio.NewReaderSize(r, 1<<16)
	var room bytes.Buffer
	for {
		list, err := readList(br, &room)
		if err == io.EOF {
			return loader.Finish()
		}
		if err != nil {
			return fmt.Errorf("badger: load: %w", err)
		}
		for _, kv := range list.Kv {
			if kv.StreamDone {
				continue
			}
			if err := loader.Set(kv); err != nil {
				return err
			}
		}
	}
}

// KVLoader loads pairs with versions in any order, as Load does. One goroutine at a time may use it.
type KVLoader struct {
	pairs pairWriter
	ended bool
}

// pairWriter takes pairs with versions in any order.
type pairWriter interface {
	add(kv *pb.KV) error // keeps kv
	finish() error       // makes the pairs visible
	abort()              // gives up what finish has not written; does nothing after it
}

// NewKVLoader returns a loader. maxPendingWrites is ignored.
func (db *DB) NewKVLoader(maxPendingWrites int) *KVLoader {
	if db.opt.managedTxns {
		return &KVLoader{pairs: newManagedPairs(db)}
	}
	return &KVLoader{pairs: newOrderedPairs(db)}
}

var errLoaderEnded = errors.New("badger: KVLoader has finished")

// Set adds a pair. Don't change it before Finish.
func (l *KVLoader) Set(kv *pb.KV) error {
	if l.ended {
		return errLoaderEnded
	}
	return writeError(l.pairs.add(kv))
}

// Finish writes what is left. When it returns nil, all pairs are visible.
func (l *KVLoader) Finish() error {
	if l.ended {
		return errLoaderEnded
	}
	l.ended = true
	err := l.pairs.finish()
	l.pairs.abort()
	return writeError(err)
}

// StreamDB copies the store, with all versions, to a new one, which must be empty and has the same
// mode, managed or not. Versions stay as they are.
func (db *DB) StreamDB(outOptions Options) (err error) {
	outOptions.managedTxns = db.opt.managedTxns
	out, err := Open(outOptions)
	if err != nil {
		return fmt.Errorf("cannot open out DB at %s: %w", outOptions.Dir, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	writer := out.NewStreamWriter()
	defer writer.Cancel()
	if err := writer.Prepare(); err != nil {
		return fmt.Errorf("cannot create stream writer in out DB at %s: %w", outOptions.Dir, err)
	}
	stream := db.newStream(newestTs)
	stream.LogPrefix = "Streaming DB to new DB at " + outOptions.Dir
	stream.Send = writer.Write
	if err := stream.Orchestrate(context.Background()); err != nil {
		return fmt.Errorf("cannot stream DB to out DB at %s: %w", outOptions.Dir, err)
	}
	return writer.Flush()
}
