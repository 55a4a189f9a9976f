package tree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/vfs"
)

// emptying returns a store of n keys, and one more that stays, and an order to delete them in.
func emptying(t *testing.T, n int) (*store, func(int) string, []int) {
	s := newStore(t, &opening{FS: vfs.NewMem()}, nil)
	key := func(i int) string { return fmt.Sprintf("k%05d", i) }
	var ops []op
	for i := range n + 1 {
		ops = append(ops, set(key(i), []byte("v")))
	}
	s.must(s.commit(false, ops...))
	s.flush()
	return s, key, rand.New(rand.NewPCG(3, 4)).Perm(n)
}

// deleteEach deletes keys one by one, each as a committer does.
func (s *store) deleteEach(key func(int) string, numbers []int) {
	s.t.Helper()
	for _, k := range numbers {
		s.must(s.commit(false, del(key(k))))
		s.tree.CatchUp()
	}
}

// wantFewSteps fails if who looks for all that is left meets more than some steps of
// deletes.
func (s *store) wantFewSteps() {
	s.t.Helper()
	if steps, most := s.steps(), 4*int(s.tree.voidStep()); steps > most {
		s.t.Errorf("%d steps, want %d at most", steps, most)
	}
}

// Somebody seals, or flushes, between the publication of the last commit and its search.
func TestVoidsOfASealedMemtable(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		sealedBeforeCatchUp(t, flushed)
	}
}

func sealedBeforeCatchUp(t *testing.T, flushed bool) {
	const n = 12000
	s, key, perm := emptying(t, n)
	defer s.close()
	s.deleteEach(key, perm[:n-15])
	var ops []op
	for _, k := range perm[n-15:] {
		ops = append(ops, del(key(k)))
	}
	s.seal() // few deletes in a memtable make no row
	s.must(s.commit(false, ops...))
	s.seal()
	if flushed {
		s.flush()
	}
	s.tree.CatchUp()
	if flushed { // whoever is next finds it
		s.must(s.commit(false, set("z", []byte("v"))))
		s.tree.CatchUp()
	}
	s.wantFewSteps()
}

// While a tally counts the deletes of one region, another one is emptied.
func TestTallyOfAnotherRegion(t *testing.T) {
	const n = 12000
	s, key, perm := emptying(t, n)
	defer s.close()
	other := func(i int) string { return fmt.Sprintf("x%05d", i) }
	var ops []op
	for i := range n {
		ops = append(ops, set(other(i), []byte("v")))
	}
	s.must(s.commit(false, ops...))
	s.flush()
	s.deleteEach(key, perm)
	for i, k := range perm {
		s.must(s.commit(false, del(other(k))))
		s.tree.CatchUp()
		if i%10 == 0 {
			s.must(s.commit(false, set(key(k), []byte("w"))))
			s.tree.CatchUp()
			s.must(s.commit(false, del(key(k))))
			s.tree.CatchUp()
		}
	}
	s.wantFewSteps()
}

// A transaction larger than its memory deletes some of what a tally has counted.
func TestTallyOfSpilledDeletes(t *testing.T) {
	const n = 12000
	s, key, perm := emptying(t, n)
	defer s.close()
	s.deleteEach(key, perm[:n/2])
	if s.tree.tally.Load() == nil {
		t.Fatal("no tally")
	}
	var ops []op
	for _, k := range perm[n/2 : n*3/4] {
		ops = append(ops, del(key(k)))
	}
	s.commitSpilled(func() {}, ops...)
	s.deleteEach(key, perm[n*3/4:])
	s.wantFewSteps()
}

// One stretch grows, unseen: its search doesn't take the credit of all others.
func TestTallyOfAStretchThatGrows(t *testing.T) {
	const n = 12000
	s, key, perm := emptying(t, n)
	defer s.close()
	s.deleteEach(key, perm[:n-2000])
	c := s.tree.tally.Load()
	if c == nil {
		t.Fatal("no tally")
	}
	// 600 000 keys are set in one stretch, then one after the other is emptied.
	lo := string(c.stretches[3].lo)
	for i := range 600 {
		var ops []op
		for j := range 1000 {
			ops = append(ops, set(fmt.Sprintf("%s.%06d", lo, i*1000+j), []byte("v")))
		}
		s.must(s.commit(false, ops...))
		s.tree.CatchUp()
		if i%100 == 99 {
			s.flush()
		}
	}
	s.deleteEach(key, perm[n-2000:])
	if steps, most := s.steps()-600_000, 4*int(s.tree.voidStep()); steps > most {
		t.Errorf("%d steps, want %d at most", steps, most)
	}
}

// The memtable at which a search notes voids becomes a run meanwhile.
func TestVoidsFoundDuringAFlush(t *testing.T) {
	const n = 12000
	for _, late := range []bool{false, true} {
		s, key, perm := emptying(t, n)
		s.deleteEach(key, perm[:n-15])
		s.seal()
		for _, k := range perm[n-15:] {
			s.must(s.commit(false, del(key(k))))
		}
		picks := s.tree.tally.Load().picks()
		visible := s.tree.Visible()
		hold, err := s.tree.hold()
		s.must(err)
		if late {
			s.flush()
		}
		s.tree.work.searching.Lock()
		s.tree.searchView(s.tree.tally.Load(), hold.view, visible, picks)
		s.tree.work.searching.Unlock()
		hold.Release()
		s.flush()
		s.must(s.commit(false, set("z", []byte("v"))))
		s.tree.CatchUp()
		if steps, most := s.steps(), 4*int(s.tree.voidStep()); steps > most {
			t.Errorf("late %v: %d steps, want %d at most", late, steps, most)
		}
		s.close()
	}
}

// opening calls a function when a run is opened.
type opening struct {
	vfs.FS
	run func()
}

func (o *opening) Open(name string) (vfs.File, error) {
	if o.run != nil && strings.HasSuffix(name, ".run") {
		o.run()
	}
	return o.FS.Open(name)
}

// What is found when the run of a memtable is written, but not known yet, is the run's.
func TestVoidsFoundAtTheEndOfAFlush(t *testing.T) {
	const n = 12000
	s, key, perm := emptying(t, n)
	defer s.close()
	s.deleteEach(key, perm[:n-15])
	s.flush()
	for _, k := range perm[n-15:] { // too few for a flush to search them itself
		s.must(s.commit(false, del(key(k))))
	}
	s.seal()
	picks := s.tree.tally.Load().picks()
	if len(picks) == 0 {
		t.Fatal("nothing is due")
	}
	fs := s.fs.(*opening)
	fs.run = func() {
		fs.run = nil
		hold, err := s.tree.hold()
		s.must(err)
		defer hold.Release()
		s.tree.work.searching.Lock()
		defer s.tree.work.searching.Unlock()
		s.tree.searchView(s.tree.tally.Load(), hold.view, s.tree.Visible(), picks)
	}
	s.flush()
	if fs.run != nil {
		t.Fatal("no run was opened")
	}
	s.wantFewSteps()
}

// What can't be read is searched once, not by each who commits.
func TestTallyOfWhatIsDamaged(t *testing.T) {
	n := 12000
	if testing.Short() {
		n = 6000
	}
	s := newStore(t, vfs.NewMem(), func(s *store) { s.cfg.NoMap = true })
	defer s.close()
	key := func(i int) string { return fmt.Sprintf("k%05d", i) }
	var ops []op
	for i := range n {
		ops = append(ops, set(key(i), bytes.Repeat([]byte{'v'}, 40)))
	}
	s.must(s.commit(false, ops...))
	s.flush()
	f := s.tree.layout().Runs()[0].Files[0]
	damage(t, s.fs, s.tree.path(filename.New(filename.Run, f.Num)), int64(f.Size/2))
	s.deleteEach(key, rand.New(rand.NewPCG(3, 4)).Perm(n))
	c := s.tree.tally.Load()
	if n := len(c.fences()); n > 0 || len(c.stretches) == 0 || c.late() {
		t.Errorf("%d fences of %d stretches are to be read; late: %v", n, len(c.stretches), c.late())
	}
	round := c.round
	s.must(s.commit(false, set("a", nil)))
	s.tree.CatchUp()
	if c.round != round {
		t.Error("searched again")
	}
}

// Range deletes over many stretches, again and again, have each searched at most once.
func TestTallyOfRangeDeletes(t *testing.T) {
	const n = 12000
	s, key, perm := emptying(t, n)
	defer s.close()
	s.deleteEach(key, perm[:n/2])
	c := s.tree.tally.Load()
	before := c.credit.Load()
	for i := range n / 2 {
		s.must(s.commit(false, delRange(key(0), key(i+1))))
		s.tree.CatchUp()
	}
	if spent := before - c.credit.Load(); spent > 4*n {
		t.Errorf("%d entries were searched", spent)
	}
	s.deleteEach(key, perm[n/2:])
	s.wantFewSteps()
}

// Where everything was deleted, one key after the other is set and deleted again: that
// is searched together, not each for itself.
func TestTallyOfFewDeletes(t *testing.T) {
	const n = 12000
	s, key, perm := emptying(t, n)
	defer s.close()
	s.deleteEach(key, perm)
	c := s.tree.tally.Load()
	round, most := c.round, 4*int(s.tree.voidStep())
	for i, k := range perm[:n/4] {
		s.must(s.commit(false, set(key(k), []byte("w"))))
		s.tree.CatchUp()
		s.must(s.commit(false, del(key(k))))
		s.tree.CatchUp()
		if i%100 == 0 {
			if steps := s.steps(); steps > most {
				t.Errorf("%d steps, want %d at most", steps, most)
			}
		}
	}
	if searches := c.round - round; searches > n/4/16 {
		t.Errorf("%d searches for %d deletes", searches, n/4)
	}
}
