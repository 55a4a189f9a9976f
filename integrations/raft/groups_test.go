package raftstore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// TestManyGroups runs many groups in one store, all at once, beside a program that writes keys of its
// own. Each has what its calls have made of it, also after a power loss.
func TestManyGroups(t *testing.T) {
	const groups = 12
	calls := 60
	if testing.Short() {
		calls = 25
	}
	rng := draw.Rand(t)
	disk := vfs.NewMem()
	o := smallFiles(disk)
	db, err := brock.Open(o)
	assert.OK(t, err)
	stores, models := make([]*Store, groups), make([]*model, groups)
	for i := range groups {
		stores[i] = assert.Must(New(db, Options{Group: fmt.Sprintf("group %d", i)}))
		models[i] = readModel(t, stores[i])
	}
	var wait, readers sync.WaitGroup
	done := make(chan struct{})
	for i := range groups {
		rng := rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
		wait.Go(func() {
			for range calls {
				if err := models[i].draw(rng)(stores[i]); err != nil {
					t.Error(err)
					return
				}
			}
		})
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := stores[i].GetCommitIndex(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Go(func() {
		for i := range calls {
			if err := db.Set([]byte("own"), fmt.Append(nil, i)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wait.Wait()
	close(done)
	readers.Wait()

	crashedDisk := disk.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
	for i, s := range stores {
		assert.Equal(t, s.opts.Group, observe(t, s), models[i].show())
		assert.OK(t, s.Close())
	}
	assert.OK(t, db.Close())
	o.FS = crashedDisk
	db, err = brock.Open(o)
	assert.OK(t, err)
	defer db.Close()
	for i := range groups {
		s := assert.Must(New(db, Options{Group: fmt.Sprintf("group %d", i)}))
		assert.Equal(t, "after the power loss, "+s.opts.Group, observe(t, s), models[i].show())
		assert.OK(t, s.Close())
	}
	assert.Equal(t, "the program's own key", string(assert.Must(db.Get([]byte("own")))), fmt.Sprint(calls-1))
}
