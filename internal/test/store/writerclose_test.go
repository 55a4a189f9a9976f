package store

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

// Each of several calls of Writer.Close returns once all is committed, and durable.
func TestWriterCloseAtOnce(t *testing.T) {
	var held atomic.Bool
	syncs, free := make(chan struct{}, 1), make(chan struct{})
	mem := vfs.NewMem()
	fs := faultfs.New(mem, faultfs.Options{Before: func(op faultfs.Op) {
		if held.Load() && op.Kind&faultfs.Syncs != 0 && strings.HasSuffix(op.Path, ".log") {
			select {
			case syncs <- struct{}{}:
			default:
			}
			<-free
		}
	}})
	o := brock.Options{Dir: "/store", FS: fs}
	db := openTest(t, o)
	w := db.NewWriter(t.Context())
	must(t, w.Set(b("a"), b("1")))
	held.Store(true)
	results := make(chan error, 2)
	go func() { results <- w.Close() }()
	<-syncs
	go func() { results <- w.Close() }()
	select {
	case err := <-results:
		t.Errorf("a Close returned %v before the sync", err)
	case <-time.After(50 * time.Millisecond): // both wait
	}
	held.Store(false)
	close(free)
	for range 2 {
		if err := <-results; err != nil && !t.Failed() {
			t.Error(err)
		}
		if t.Failed() {
			return
		}
	}
	must(t, w.Close())
}
