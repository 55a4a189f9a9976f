package storetest

import (
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
)

// Gate holds up some operations of a file system while it is shut.
type Gate struct {
	mu    sync.Mutex // guards:
	holds func(faultfs.Op) bool
	open  chan struct{} // nil: nothing is held up
	met   chan struct{} // closed when an operation is
}

// Shut holds up what holds says, until the returned function is called. The channel is closed
// when something is held up.
func (g *Gate) Shut(holds func(faultfs.Op) bool) (met <-chan struct{}, open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds, g.open, g.met = holds, make(chan struct{}), make(chan struct{})
	return g.met, sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		close(g.open)
		g.open = nil
	})
}

func (g *Gate) before(op faultfs.Op) {
	g.mu.Lock()
	open := g.open
	if open == nil || !g.holds(op) {
		g.mu.Unlock()
		return
	}
	select {
	case <-g.met:
	default:
		close(g.met)
	}
	g.mu.Unlock()
	<-open
}

// OpenGated opens an encrypted store with some entries in runs and in memory, on a file system
// that the Gate holds up.
func OpenGated(t *testing.T) (*brock.DB, *Gate) {
	g := new(Gate)
	o := KeyedOptions(vfs.NewMem(), "/store")
	o.FS = faultfs.New(o.FS, faultfs.Options{Before: g.before})
	o.Durability = brock.Buffered
	db := Open(t, o)
	for _, round := range []string{"1", "2"} {
		for _, key := range []string{"a", "b", "c"} {
			Set(t, db, key, strings.Repeat(round, 2000))
		}
		assert.OK(t, db.Flush(t.Context()))
	}
	assert.OK(t, OpenKeyspace(t, db, "other").Set([]byte("x"), []byte("y")))
	assert.OK(t, db.Flush(t.Context()))
	return db, g
}
