package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/dgraph-io/ristretto/v2/z"
	"google.golang.org/protobuf/proto"

	"github.com/brockdb/brock/compat/badger/pb"
)

// openTest opens a store in a directory of the test, quietly, with all versions kept.
func openTest(t *testing.T, managed bool) *DB {
	o := DefaultOptions(t.TempDir()).WithLogger(nil).WithNumVersionsToKeep(math.MaxInt32)
	open := Open
	if managed {
		open = OpenManaged
	}
	db, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// fillManaged writes count keys, each at the versions 5 and 7, every tenth deleted at 7.
func fillManaged(t *testing.T, db *DB, count int) {
	for _, version := range []uint64{7, 5} {
		b := db.NewWriteBatchAt(version)
		for i := range count {
			key := fmt.Appendf(nil, "%02d/\x00key%05d", i%7, i)
			var err error
			if version == 7 && i%10 == 0 {
				err = b.Delete(key)
			} else {
				err = b.SetEntry(NewEntry(key, fmt.Appendf(nil, "%d at %d", i, version)).WithMeta(byte(i)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

// collect runs a stream and returns its pairs, sorted.
func collect(t *testing.T, st *Stream) []*pb.KV {
	var pairs []*pb.KV
	st.Send = func(buf *z.Buffer) error {
		list, err := BufferToKVList(buf)
		if err == nil {
			pairs = append(pairs, list.Kv...)
		}
		return err
	}
	if err := st.Orchestrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(pairs, func(a, b *pb.KV) int {
		if order := bytes.Compare(a.Key, b.Key); order != 0 {
			return order
		}
		return int(b.Version) - int(a.Version)
	})
	return pairs
}

// TestStreamReadsEachKeyOnce compares streams of different shapes with what an iterator finds.
func TestStreamReadsEachKeyOnce(t *testing.T) {
	db := openTest(t, true)
	fillManaged(t, db, 5000)
	for _, c := range []struct {
		name   string
		readAt uint64
		change func(*Stream)
		want   int
	}{
		{"all", math.MaxUint64, func(*Stream) {}, 9000},
		{"before the deletes", 6, func(*Stream) {}, 5000},
		{"since", math.MaxUint64, func(st *Stream) { st.SinceTs = 5 }, 4500},
		{"one goroutine", math.MaxUint64, func(st *Stream) { st.NumGo = 1 }, 9000},
		{"many goroutines", math.MaxUint64, func(st *Stream) { st.NumGo = 40 }, 9000},
		{"prefix", math.MaxUint64, func(st *Stream) { st.Prefix = []byte("03/\x00") }, 1284},
		{"prefix of nothing", math.MaxUint64, func(st *Stream) { st.Prefix = []byte("none") }, 0},
		{"chosen", math.MaxUint64, func(st *Stream) {
			st.ChooseKey = func(item *Item) bool { return item.UserMeta()%2 == 1 }
		}, 5000},
	} {
		st := db.NewStreamAt(c.readAt)
		c.change(st)
		pairs := collect(t, st)
		if len(pairs) != c.want {
			t.Errorf("%s: %d pairs, want %d", c.name, len(pairs), c.want)
		}
		for i := 1; i < len(pairs); i++ {
			if bytes.Equal(pairs[i].Key, pairs[i-1].Key) && pairs[i].Version == pairs[i-1].Version {
				t.Fatalf("%s: %q twice", c.name, pairs[i].Key)
			}
		}
	}
}

// TestStreamThreads: each goroutine has its number, ids are of ranges, and done markers end them.
func TestStreamThreads(t *testing.T) {
	db := openTest(t, true)
	fillManaged(t, db, 3000)
	st := db.NewStreamAt(math.MaxUint64)
	st.NumGo = 3
	st.SendDoneMarkers(true)
	st.UseKeyToListWithThreadId = true
	var mu sync.Mutex
	busy := map[int]bool{}
	st.KeyToListWithThreadId = func(key []byte, itr *Iterator, id int) (*pb.KVList, error) {
		mu.Lock()
		if busy[id] || id < 0 || id >= 3 || itr.ThreadId != id {
			t.Errorf("goroutine %d", id)
		}
		busy[id] = true
		mu.Unlock()
		list, err := st.ToList(key, itr)
		mu.Lock()
		busy[id] = false
		mu.Unlock()
		return list, err
	}
	st.FinishThread = func(id int) (*pb.KVList, error) {
		return &pb.KVList{Kv: []*pb.KV{{Key: []byte("finish")}}}, nil
	}
	pairs := collect(t, st)
	last := map[uint32]int{}
	var done, finished int
	for _, kv := range pairs {
		if kv.StreamId == 0 {
			t.Fatal("a pair without a stream")
		}
		last[kv.StreamId]++
		if kv.StreamDone {
			done++
		}
		if string(kv.Key) == "finish" {
			finished++
		}
	}
	if done != len(last) || finished != len(last) || len(pairs) != 5400+2*done {
		t.Fatalf("%d pairs, %d streams, %d done, %d finished", len(pairs), len(last), done, finished)
	}
}

// TestStreamBatches: no batch is above MaxSize but for a pair that is larger.
func TestStreamBatches(t *testing.T) {
	db := openTest(t, false)
	b := db.NewWriteBatch()
	for i := range 300 {
		if err := b.Set(fmt.Appendf(nil, "%04d", i), make([]byte, 100+i%3*2000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	st := db.NewStream()
	st.MaxSize = 3000
	count := 0
	st.Send = func(buf *z.Buffer) error {
		list, err := BufferToKVList(buf)
		if err != nil {
			return err
		}
		if size := buf.LenNoPadding(); size > 3000+8*len(list.Kv) && len(list.Kv) > 1 {
			t.Errorf("a batch of %d bytes and %d pairs", size, len(list.Kv))
		}
		count += len(list.Kv)
		return nil
	}
	if err := st.Orchestrate(context.Background()); err != nil || count != 300 {
		t.Fatal(count, err)
	}
}

// TestStreamErrors: each way to fail ends the stream with that error.
func TestStreamErrors(t *testing.T) {
	db := openTest(t, true)
	fillManaged(t, db, 3000)
	failed := errors.New("own")
	st := db.NewStreamAt(math.MaxUint64)
	st.MaxSize = 100
	st.Send = func(*z.Buffer) error { return failed }
	if err := st.Orchestrate(context.Background()); err != failed {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	st.Send = func(*z.Buffer) error {
		cancel()
		return nil
	}
	if err := st.Orchestrate(ctx); err != context.Canceled {
		t.Fatal(err)
	}
	st.Send = nil
	if err := st.Orchestrate(context.Background()); !errors.Is(err, ErrInvalidRequest) {
		t.Fatal(err)
	}
	// An error of KeyToList leaves out its key.
	st = db.NewStreamAt(6)
	st.KeyToList = func(key []byte, itr *Iterator) (*pb.KVList, error) {
		if itr.Item().UserMeta()%2 == 0 {
			return nil, failed
		}
		return st.ToList(key, itr)
	}
	if pairs := collect(t, st); len(pairs) != 1500 {
		t.Fatal(len(pairs))
	}
	st = db.NewStreamAt(math.MaxUint64)
	if _, err := st.Backup(failingWriter{}, 0); err != io.ErrClosedPipe {
		t.Fatal(err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestStreamModes(t *testing.T) {
	managed, plain := openTest(t, true), openTest(t, false)
	for name, fn := range map[string]func(){
		"NewStream":   func() { managed.NewStream() },
		"NewStreamAt": func() { plain.NewStreamAt(1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s in the other mode does not panic", name)
				}
			}()
			fn()
		}()
	}
}

// TestBufferOfPairs: what KVToBuffer writes, BufferToKVList reads.
func TestBufferOfPairs(t *testing.T) {
	buf := z.NewBuffer(16, "test")
	defer buf.Release()
	want := []*pb.KV{{Key: []byte("a"), Version: 3}, {Value: make([]byte, 1000), StreamDone: true}}
	for _, kv := range want {
		KVToBuffer(kv, buf)
	}
	list, err := BufferToKVList(buf)
	if err != nil || len(list.Kv) != 2 || !proto.Equal(list.Kv[0], want[0]) || !proto.Equal(list.Kv[1], want[1]) {
		t.Fatal(list, err)
	}
}
