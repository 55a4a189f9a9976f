package metamorphic

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// followsDoomed is the directory of the store, in the environment of a process that
// follows it until it is killed.
const followsDoomed = "BROCK_METAMORPHIC_FOLLOWS"

// following follows a store, and reads all of it again and again.
func following(dir string) error {
	o := doomedOptions(dir)
	o.Mode = brock.Follow
	for {
		db, err := brock.Open(o)
		if err != nil {
			return err
		}
		for range 20 {
			if _, err := db.Refresh(context.Background()); err != nil {
				return err
			}
			err := db.View(func(txn *brock.Txn) error {
				for item, err := range txn.Items(brock.IteratorOptions{}) {
					if err != nil {
						return err
					}
					if _, err := item.Value(); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		if err := db.Close(); err != nil {
			return err
		}
	}
}

// witness follows a store in this process, and knows what it must have.
type witness struct {
	t       *testing.T
	o       brock.Options
	rng     *rand.Rand
	db      *brock.DB
	at      uint64 // steps in want
	want    kept
	checked int
	pinned  *brock.Txn // of an earlier version, and
	pairs   map[string][]byte
}

func newWitness(t *testing.T, dir string, i int) *witness {
	o := doomedOptions(dir)
	o.Mode = brock.Follow
	return &witness{t: t, o: o, rng: rand.New(rand.NewPCG(doomedSeed, uint64(i))), want: kept{pairs: map[string][]byte{}}}
}

// look moves on, and compares what it sees with what the steps that it sees have done.
// The first least steps were acknowledged.
func (w *witness) look(least uint64) error {
	if w.db == nil {
		db, err := brock.Open(w.o)
		if errors.Is(err, brock.ErrNotExist) && least == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		w.db = db
	} else if _, err := w.db.Refresh(context.Background()); err != nil {
		return err
	}
	if err := w.compare(least); err != nil {
		return err
	}
	w.checked++
	switch {
	case w.rng.IntN(8) == 0:
		return w.close()
	case w.rng.IntN(4) == 0 && w.pinned == nil:
		txn, err := w.db.Begin(context.Background(), brock.TxnOptions{})
		w.pinned, w.pairs = txn, cloned(w.want.pairs)
		return err
	case w.rng.IntN(4) == 0:
		return w.unpin()
	}
	return nil
}

func cloned(m map[string][]byte) map[string][]byte {
	c := make(map[string][]byte, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// compare compares the store with what want is after the step that the store says, or
// after the next one, which may say nothing.
func (w *witness) compare(least uint64) error {
	done, err := doneSteps(w.db)
	if err != nil {
		return err
	}
	// The last frame of a segment that was never synced is not shown.
	if done+3 < least {
		return fmt.Errorf("%d steps of %d are there", done, least)
	}
	if done < w.at {
		if w.at-done > 1 {
			return fmt.Errorf("%d steps are there, and there were %d", done, w.at)
		}
		done = w.at // the last one is of a keyspace, which says nothing
	}
	for ; w.at < done; w.at++ {
		w.want.apply(w.at)
	}
	diff := differs(w.t, w.db, w.want)
	if s, _ := kind(w.at); diff != "" && s != commitStep {
		w.want.apply(w.at)
		w.at++
		diff = differs(w.t, w.db, w.want)
	}
	if diff != "" {
		return fmt.Errorf("after %d steps, of which the store says %d: %s", w.at, done, diff)
	}
	return nil
}

// doneSteps is how many steps a store says that it has, up to the last commit.
func doneSteps(db *brock.DB) (uint64, error) {
	v, err := db.Get([]byte(doneKey))
	if errors.Is(err, brock.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(v) + 1, nil
}

// unpin compares what an old transaction sees.
func (w *witness) unpin() error {
	if w.pinned == nil {
		return nil
	}
	diff, err := contentDiffers(w.pinned, w.pairs)
	w.pinned.Discard()
	w.pinned = nil
	if err == nil && diff != "" {
		err = fmt.Errorf("an old transaction: %s", diff)
	}
	return err
}

func (w *witness) close() error {
	err := w.unpin()
	if w.db != nil {
		err = errors.Join(err, w.db.Verify(context.Background(), nil), w.db.Close())
	}
	w.db = nil
	return err
}

// TestKilledAndFollowed kills a process that commits, again and again, while others
// follow its store: two in this process, which compare all that they see with what was
// acknowledged, and one that is killed, too.
func TestKilledAndFollowed(t *testing.T) {
	doomWithKeys(t)
	kills := *killsFlag
	if kills == 0 {
		kills = 8
		if testing.Short() {
			kills = 2
		}
	}
	dir := t.TempDir()
	var acked atomic.Uint64
	done := make(chan struct{})
	var all sync.WaitGroup
	witnesses := []*witness{newWitness(t, dir, 0), newWitness(t, dir, 1)}
	for _, w := range witnesses {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := w.look(acked.Load()); err != nil {
					t.Errorf("a follower: %v", err)
					return
				}
			}
		})
	}
	defer all.Wait()
	end := sync.OnceFunc(func() { close(done) })
	defer end()
	want, n := kept{pairs: map[string][]byte{}}, uint64(0)
	for range kills {
		if t.Failed() {
			return
		}
		stop := runFollower(t, dir, n > 0)
		last := runDoomed(t, dir, n, 300*time.Millisecond+rand.N(700*time.Millisecond), acked.Store)
		stop()
		for ; n < last; n++ {
			want.apply(n)
		}
		db, err := brock.Open(doomedOptions(dir))
		must(t, "open beside followers", err)
		if diff := differs(t, db, want); diff != "" {
			want.apply(n)
			n++
			if diff := differs(t, db, want); diff != "" {
				t.Fatalf("%d steps acknowledged: %s", last, diff)
			}
		}
		must(t, "close", db.Close())
	}
	end()
	all.Wait()
	for _, w := range witnesses {
		if err := w.look(n); err != nil {
			t.Errorf("at the end: %v", err)
		}
		if err := w.close(); err != nil {
			t.Errorf("at the end: %v", err)
		}
		t.Logf("%d kills, %d steps, %d looks", kills, n, w.checked)
	}
}

// runFollower runs a process that follows the store, if there is one. stop kills it.
func runFollower(t *testing.T, dir string, there bool) (stop func()) {
	t.Helper()
	if !there {
		return func() {}
	}
	self, err := os.Executable()
	must(t, "find the test's program", err)
	cmd := exec.Command(self)
	cmd.Env = append(slices.Clone(os.Environ()), followsDoomed+"="+dir)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	must(t, "start", cmd.Start())
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed, or has printed why it ended
		if text := complaint.String(); strings.TrimSpace(text) != "" {
			t.Errorf("a follower ended by itself: %s", text)
		}
	}
}
