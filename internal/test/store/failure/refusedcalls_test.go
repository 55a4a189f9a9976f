package failure

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// A call of the system that has changed nothing stops nothing: commits and flushes return
// nil or ErrRefused while it lasts, and the same DB goes on when it is over.
func TestRefusedCallsStopNothing(t *testing.T) {
	sharing := errors.New("sharing violation")
	for name, fault := range map[string]faultfs.Fault{
		"no descriptor for the journal":        {Kinds: faultfs.Create, Path: ".log", Err: syscall.EMFILE},
		"no descriptor to read the journal":    {Kinds: faultfs.Open, Path: ".log", Err: syscall.EMFILE},
		"no descriptor for a run":              {Kinds: faultfs.Create, Path: ".run", Err: syscall.ENFILE},
		"no descriptor to read a run":          {Kinds: faultfs.Open, Path: ".run", Err: syscall.EMFILE},
		"no descriptor for a value segment":    {Kinds: faultfs.Opens, Path: ".val", Err: syscall.EMFILE},
		"no descriptor for the directory":      {Kinds: faultfs.SyncDir, Err: syscall.EMFILE},
		"no descriptor at all":                 {Kinds: faultfs.Opens | faultfs.SyncDir | faultfs.List, Err: syscall.EMFILE},
		"files can't be renamed or removed":    {Kinds: faultfs.Rename | faultfs.Remove, Err: sharing},
		"files can't be opened for writing":    {Kinds: faultfs.Create | faultfs.OpenReadWrite, Err: syscall.EACCES},
		"files can't be mapped":                {Kinds: faultfs.Map, Err: syscall.ENOMEM},
		"no memory for journal writes":         {Kinds: faultfs.Write, Path: ".log", Err: syscall.ENOMEM, Short: true},
		"no memory for manifest writes":        {Kinds: faultfs.Write, Path: "MANIFEST", Err: syscall.ENOMEM, Short: true},
		"no memory for writes":                 {Kinds: faultfs.Write, Err: syscall.ENOMEM, Short: true},
		"reads fail":                           {Kinds: faultfs.Read, Err: faultfs.ErrIO},
		"sizes and names can't be asked for":   {Kinds: faultfs.Size | faultfs.Stat | faultfs.List | faultfs.Free, Err: faultfs.ErrIO},
		"journal writes are interrupted":       {Kinds: faultfs.Write, Path: ".log", Err: syscall.EINTR},
		"manifest writes are interrupted":      {Kinds: faultfs.Write, Path: "MANIFEST", Err: syscall.EAGAIN},
		"all reads and writes are interrupted": {Kinds: faultfs.Read | faultfs.Write, Err: syscall.EINTR},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := storetest.DrawKeys(t)
			operations := []int{1, 5, 25, 100}
			if i := draw.Rand(t).IntN(len(operations)); testing.Short() { // a failure names nth
				operations = operations[i : i+1]
			}
			for _, nth := range operations {
				fault.Nth, fault.Times = nth, faultfs.Always
				refusedRun(t, keys, fault)
			}
		})
	}
}

func refusedRun(t *testing.T, keys brock.KeyProvider, fault faultfs.Fault) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{})
	o := brock.Options{Dir: storetest.Dir, FS: fs, Keys: keys, Tuning: brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10, RunFileSize: 64 << 10},
		KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 512}}
	db, err := brock.Open(o)
	assert.OK(t, err)
	want := map[string]string{}
	n := 0
	write := func() error {
		n++
		key, value := fmt.Sprint("key ", n%150), fmt.Sprint(n, strings.Repeat("x", n%5*300))
		err := db.Set([]byte(key), []byte(value))
		if err == nil {
			want[key] = value
		}
		return err
	}
	passes := func(what string, err error) {
		t.Helper()
		if err != nil && (!errors.Is(err, brock.ErrRefused) || errors.Is(err, brock.ErrStopped)) {
			t.Errorf("operation %d: %s: %v", fault.Nth, what, err)
		}
	}
	for range 150 {
		assert.OK(t, write())
	}
	assert.OK(t, db.Flush(t.Context()))
	fs.Inject(fault)
	for i, begin := 0, time.Now(); i < 300 && time.Since(begin) < 200*time.Millisecond; i++ { // with memory full each commit waits
		passes("set", write())
		switch i % 50 {
		case 10:
			passes("flush", db.Flush(t.Context()))
		case 20:
			passes("compact", db.Compact(t.Context()))
		case 30:
			passes("sync", db.Sync(t.Context()))
		case 40:
			_, err := db.Keyspace(fmt.Sprint(i))
			passes("make a keyspace", err)
		}
	}
	fs.Heal()
	for range 300 {
		assert.OK(t, write())
	}
	assert.OK(t, db.Flush(t.Context()))
	_, err = db.Reclaim(t.Context())
	assert.OK(t, err)
	for range 2 {
		assert.OK(t, db.Verify(t.Context(), nil))
		for key, value := range want {
			if got, err := db.Get([]byte(key)); err != nil || string(got) != value {
				t.Fatalf("operation %d: %s is %.20q, %v, want %.20q", fault.Nth, key, got, err, value)
			}
		}
		assert.OK(t, db.Close())
		db, err = brock.Open(o)
		assert.OK(t, err)
	}
	assert.OK(t, db.Close())
}

// Work that the system refuses is tried again by itself, without anybody's call. The
// Logger tells when that begins and when it is over, and Metrics what waits.
func TestRefusedWorkIsTriedAgain(t *testing.T) {
	fs := faultfs.New(vfs.NewMem(), faultfs.Options{})
	var log lockedBuffer
	db, err := brock.Open(brock.Options{Dir: storetest.Dir, FS: fs, Durability: brock.Buffered, Tuning: brock.Tuning{MemtableSize: 64 << 10},
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	assert.OK(t, err)
	fs.Inject(faultfs.Fault{Kinds: faultfs.Create, Path: ".run", Times: faultfs.Always, Err: syscall.EMFILE})
	for i := 0; err == nil; i++ {
		err = db.Set(fmt.Appendf(nil, "key %d", i), make([]byte, 400))
	}
	assert.Error(t, "set, with memory full", err, brock.ErrRefused)
	assert.Error(t, "set, with memory full", err, syscall.EMFILE)
	m := db.Metrics().Tree
	if m.WorkRefused == 0 || !strings.Contains(m.WorkWaiting, "flush: ") || m.Refused != 0 {
		t.Errorf("%d pieces of work refused, %d commits for want of disk space; waiting: %q", m.WorkRefused, m.Refused, m.WorkWaiting)
	}
	fs.Heal()
	deadline.Wait(t, "the memtables are flushed", func() bool {
		m := db.Metrics().Tree
		return m.Memtables <= 1 && m.WorkWaiting == ""
	})
	assert.OK(t, db.Set([]byte("a"), []byte("1")))
	assert.OK(t, db.Close())
	for _, line := range []string{"background work was refused, and is tried again", "background work is no longer refused"} {
		if n := strings.Count(log.String(), line+`" work=flush`); n != 1 {
			t.Errorf("%d times in the log: %s\n%s", n, line, log.String())
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
