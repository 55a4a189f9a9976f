package watch

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

const (
	killedDir  = "BROCK_WATCH_DIR" // of the store, in the environment of a writer that is killed
	killedSeed = "BROCK_WATCH_SEED"
)

func killedOptions(dir string) brock.Options {
	o := options(nil)
	o.Dir = dir
	return o
}

// runKilled writes until it is killed, and tells a position after each step.
func runKilled(t *testing.T, dir string) {
	seed := assert.Must(strconv.ParseUint(os.Getenv(killedSeed), 10, 64))
	db := assert.Must(brock.Open(killedOptions(dir)))
	w := &writer{t: t, r: rand.New(rand.NewPCG(seed, 1)), db: db, expires: time.Now().Add(time.Hour), large: true, copies: -1}
	for {
		w.step()
		for c, err := range db.Watch(t.Context(), brock.WatchOptions{Buffered: true}) {
			assert.OK(t, err)
			fmt.Println("position", c.Position())
			break
		}
	}
}

// TestKilled: a writer is killed again and again. A consumer that reads beside it, as a follower, and
// goes on in the stores that are left has what these have, and each position that the writer has told
// is in their history.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(killedDir); dir != "" {
		runKilled(t, dir)
	}
	kills := 6
	if testing.Short() {
		kills = 2
	}
	r, dir := draw.Rand(t), t.TempDir()+"/db"
	rep := newReplica()
	db := assert.Must(brock.Open(killedOptions(dir)))
	rep.pull(t, db, brock.WatchOptions{}, 1, nil)
	assert.OK(t, db.Close())
	for range kills {
		writer := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		writer.Env = append(os.Environ(), killedDir+"="+dir, fmt.Sprintf("%s=%d", killedSeed, r.Uint64()))
		out := assert.Must(writer.StdoutPipe())
		assert.OK(t, writer.Start())
		lines := bufio.NewScanner(out)
		last, steps := brock.Position{}, 20+r.IntN(60)
		for n := 0; n < steps && lines.Scan(); n++ {
			text := ""
			if _, err := fmt.Sscanf(lines.Text(), "position %s", &text); err != nil {
				t.Errorf("the writer says %s", lines.Text())
				break
			}
			last = assert.Must(brock.ParsePosition(text))
			if n == steps/2 {
				o := killedOptions(dir)
				o.Mode = brock.Follow
				follower := assert.Must(brock.Open(o))
				rep.pull(t, follower, brock.WatchOptions{}, 1+r.IntN(30), nil)
				assert.OK(t, follower.Close())
			}
		}
		assert.OK(t, writer.Process.Kill())
		for lines.Scan() {
		}
		_ = writer.Wait()
		db := assert.Must(brock.Open(killedOptions(dir)))
		told := newReplica()
		told.at = last
		told.pull(t, db, brock.WatchOptions{}, -1, nil)
		rep.pull(t, db, brock.WatchOptions{}, -1, nil)
		assert.SameText(t, "replica", rep.text(), contents(t, db, 0, true))
		assert.OK(t, db.Close())
	}
}

// TestFullDisk: a replica follows a store whose disk is full again and again, and begins anew when
// history is gone for that.
func TestFullDisk(t *testing.T) {
	r := draw.Rand(t)
	o := options(vfs.NewMem())
	o.KeyspaceDefaults, o.DiskLimit = brock.KeyspaceOptions{}, 6<<20
	db := storetest.Open(t, o)
	rep := newReplica()
	rep.pull(t, db, brock.WatchOptions{}, 1, nil)
	full, gone := 0, 0
	for i := range 600 {
		err := db.UpdateContext(t.Context(), brock.TxnOptions{Update: true, Durability: brock.Durability(1 + r.IntN(2))}, func(txn *brock.Txn) error {
			if r.IntN(50) == 0 {
				return txn.DeleteRange(fmt.Appendf(nil, "key %02d", r.IntN(60)), nil)
			}
			return txn.Set(fmt.Appendf(nil, "key %02d", r.IntN(90)), storetest.RandomBytes(i, r.IntN(80_000)))
		})
		if errors.Is(err, brock.ErrNoSpace) {
			full++
			assert.OK(t, db.DeleteRange([]byte("key 3"), nil))
		} else {
			assert.OK(t, err)
		}
		if r.IntN(20) > 0 {
			continue
		}
		assert.OK(t, db.Sync(t.Context()))
		again := brock.WatchOptions{After: rep.at}
		for c, err := range db.Watch(t.Context(), again) {
			if errors.Is(err, brock.ErrVersionGone) {
				gone++
				rep = newReplica()
				rep.pull(t, db, brock.WatchOptions{Snapshot: true}, -1, nil)
				break
			}
			assert.OK(t, err)
			if rep.apply(t, c); c.Caught {
				break
			}
		}
		assert.SameText(t, fmt.Sprint("step ", i), rep.text(), contents(t, db, 0, true))
	}
	t.Logf("%d sets were refused, history was gone %d times", full, gone)
	if gone == 0 {
		t.Error("no history was dropped")
	}
}
