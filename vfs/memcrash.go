package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// CrashMode says what a crash leaves of changes that were not synced.
type CrashMode int

// The crash modes.
const (
	// Lost leaves only what is durable: the power fails before the disk has written
	// anything else.
	Lost CrashMode = iota
	// All leaves everything: the process dies, and the system goes on. What was not durable
	// still is not.
	All
	// Prefix leaves all changes before some moment, in the order of the calls, and perhaps
	// a part of the write at that moment.
	Prefix
	// Chaos leaves any subset of the changes. Each name is left as it was at some moment, and
	// so is each block of 4 KiB. Of some blocks each sector of 512 bytes is left in its old or
	// its new state. A file has one of the sizes that it had.
	Chaos
)

// CrashOptions chooses one of the possible crashes.
type CrashOptions struct {
	Mode CrashMode
	Seed uint64 // for Prefix and Chaos; the same seed makes the same choices
}

// CrashClone returns the file system that a crash at this moment would leave.
// Nothing is locked in it. It and m don't affect each other.
func (m *Mem) CrashClone(o CrashOptions) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	// All choices come from one source of random numbers, in a fixed order: a seed
	// makes the same crash each time.
	c := newCrash(o)
	switch o.Mode {
	case Prefix:
		c.chooseMoment(m.root)
	case Chaos:
		// Crashes that leave little, half, or nearly all: each finds other mistakes.
		c.keep = []float64{0.1, 0.5, 0.9}[c.rng.IntN(3)]
	}
	clone := NewMem()
	clone.seq, clone.capacity = m.seq, m.capacity
	clone.root = c.copyDir(m.root)
	return clone
}

// crash makes a copy of a file system, as one crash leaves it.
type crash struct {
	mode  CrashMode
	rng   *rand.Rand
	files map[*memFile]*memFile // copies by their originals, as a file may have two names
	dirs  map[*memDir]*memDir   // copies by their originals
	met   map[uint64]bool       // All: changes that were met, by number

	last uint64  // Prefix: the last change that is left
	torn uint64  // Prefix: the change of which a part is left; 0: none
	keep float64 // Chaos: the share of changes that are left
}

func newCrash(o CrashOptions) *crash {
	return &crash{
		mode: o.Mode, rng: rand.New(rand.NewPCG(o.Seed, 0x42726f636b)),
		files: map[*memFile]*memFile{}, dirs: map[*memDir]*memDir{}, met: map[uint64]bool{},
	}
}

// chooseMoment chooses where a Prefix ends: after any number of changes. A copy of all meets each
// change, also those of a file or directory that only a crash brings back.
func (c *crash) chooseMoment(root *memDir) {
	all := newCrash(CrashOptions{Mode: All})
	all.copyDir(root)
	// Each number of changes is equally likely. The change after these may be torn.
	order := slices.Sorted(maps.Keys(all.met))
	k := c.rng.IntN(len(order) + 1)
	if k > 0 {
		c.last = order[k-1]
	}
	if k < len(order) && c.rng.IntN(2) == 0 {
		c.torn = order[k]
	}
}

// copyNode copies what a name means.
func (c *crash) copyNode(n memNode) memNode {
	switch {
	case n.file != nil:
		return memNode{file: c.copyFile(n.file)}
	case n.dir != nil:
		return memNode{dir: c.copyDir(n.dir)}
	}
	return n
}

// copyDir copies a directory and all below it, as the crash leaves them.
func (c *crash) copyDir(d *memDir) *memDir {
	if done := c.dirs[d]; done != nil {
		return done
	}
	to := newMemDir()
	// Before its contents: a directory is met again through a pending rename.
	c.dirs[d] = to
	if c.mode == All {
		// The system goes on, so what was not durable can still be lost by a later crash.
		to.durable, to.entries = c.copyNames(d.durable), c.copyNames(d.entries)
		for _, p := range d.pending {
			c.met[p.seq] = true
			p.node = c.copyNode(p.node)
			to.pending = append(to.pending, p)
		}
		return to
	}
	// What the crash leaves is durable from then on.
	left := maps.Clone(d.durable)
	switch c.mode {
	case Prefix:
		for _, p := range d.pending {
			if p.seq <= c.last {
				setName(left, p.name, p.node)
			}
		}
	case Chaos:
		// Names change apart from each other, but for those that were exchanged: no crash leaves
		// half of that.
		first := groupExchanged(d.pending)
		moments := map[string][]uint64{} // when names that change together did, oldest first
		for _, p := range d.pending {
			of := first[p.name]
			if n := len(moments[of]); n == 0 || moments[of][n-1] != p.seq {
				moments[of] = append(moments[of], p.seq)
			}
		}
		last := map[string]uint64{} // the last moment that is left
		for _, of := range slices.Sorted(maps.Keys(moments)) {
			if n := c.chooseCount(len(moments[of])); n > 0 {
				last[of] = moments[of][n-1]
			}
		}
		for _, p := range d.pending {
			if p.seq <= last[first[p.name]] {
				setName(left, p.name, p.node)
			}
		}
	}
	to.durable = c.copyNames(left)
	to.entries = maps.Clone(to.durable)
	return to
}

// groupExchanged returns, for each name that changes, the first one of those that it was exchanged
// with: an exchange is two changes with one number, which both leave something, as a rename does
// not. Other names are their own.
func groupExchanged(pending []nameChange) (first map[string]string) {
	first = map[string]string{}
	for i, p := range pending {
		if first[p.name] == "" {
			first[p.name] = p.name
		}
		if i == 0 || p.seq != pending[i-1].seq || p.node == (memNode{}) {
			continue
		}
		a, b := first[p.name], first[pending[i-1].name]
		for name, of := range first {
			if of == a || of == b {
				first[name] = min(a, b)
			}
		}
	}
	return first
}

// copyNames copies what the names mean, in order, so that a seed always meets the
// same files in the same order.
func (c *crash) copyNames(from map[string]memNode) map[string]memNode {
	to := make(map[string]memNode, len(from))
	for _, name := range slices.Sorted(maps.Keys(from)) {
		to[name] = c.copyNode(from[name])
	}
	return to
}

// chooseCount chooses how many of n changes are left: all with the probability keep, else
// none or some.
func (c *crash) chooseCount(n int) int {
	switch {
	// All or nothing are the most telling cases, so they come more often than by chance.
	case c.rng.Float64() < c.keep:
		return n
	case c.rng.IntN(2) == 0:
		return 0
	}
	return c.rng.IntN(n + 1)
}

// copyFile copies a file as the crash leaves it.
func (c *crash) copyFile(f *memFile) *memFile {
	if done := c.files[f]; done != nil {
		return done
	}
	to := &memFile{}
	c.files[f] = to
	f.detachMaps() // a later write to what is mapped must not change the clone
	if c.mode == All {
		to.now, to.durable = f.now.clone(), f.durable.clone()
		to.pending, to.dropped = slices.Clone(f.pending), f.dropped
		for i := range f.pending {
			c.met[f.pending[i].seq] = true
		}
		return to
	}
	left := f.durable.clone()
	switch c.mode {
	case Prefix:
		c.applyPrefix(&left, f.pending)
	case Chaos:
		if len(f.pending) > 0 {
			c.applyChaos(&left, f.pending)
		}
	}
	to.now = left
	// What the disk has after the crash stays, so a second crash loses nothing of it.
	to.durable = to.now.clone()
	return to
}

// applyPrefix applies the changes up to the chosen moment.
func (c *crash) applyPrefix(left *content, pending []change) {
	for i := range pending {
		switch ch := &pending[i]; {
		case ch.seq <= c.last:
			left.apply(ch)
		// A change of size is made whole or not at all.
		case ch.seq == c.torn && !ch.resize:
			c.tearWrite(left, ch)
		}
	}
}

// tearWrite applies the front of a write, which ends at a sector.
func (c *crash) tearWrite(left *content, ch *change) {
	// Disks write sectors whole, so a write is torn between two of them.
	end := (ch.off + c.rng.Int64N(int64(len(ch.data))+1)) / sectorSize * sectorSize
	part := *ch
	part.data = ch.data[:max(0, end-ch.off)]
	left.apply(&part)
}

const tornBlocks = 8 // 1/8 of the blocks are torn

// applyChaos leaves each changed block as it was after some number of the changes. Each sector of a
// torn block is left as it was before all changes, or after all of them.
func (c *crash) applyChaos(left *content, pending []change) {
	blocks := map[int]bool{}
	for i := range pending {
		for k := range pending[i].chunks() {
			blocks[k] = true
		}
		if pending[i].resize {
			for k := range left.chunks {
				// A resize changes all blocks behind the new end.
				blocks[k] = true
			}
		}
	}
	// A size that is larger than what was written leaves zeros, as on file systems
	// that write sizes before data.
	size := left.size
	if k := c.chooseCount(len(pending)); k > 0 {
		size = pending[k-1].size
	}
	// A block is left as of one moment. Of a torn one, each sector by itself is left as before all
	// changes or after them: disks write sectors of one block in any order.
	moments := map[int][]int{} // blocks by how many changes are left of them
	torn := map[int]uint32{}   // a bit for each sector that is new
	for _, k := range slices.Sorted(maps.Keys(blocks)) {
		n := c.chooseCount(len(pending))
		if c.rng.IntN(tornBlocks) == 0 {
			torn[k] = c.rng.Uint32()
		} else {
			moments[n] = append(moments[n], k)
		}
	}
	now := left.clone()
	for i := range pending {
		now.apply(&pending[i])
		for _, k := range moments[i+1] {
			left.shareChunk(k, now.share(k))
		}
	}
	for k, sectors := range torn {
		for s := range chunkSize / sectorSize {
			if sectors>>s&1 == 1 {
				sector := left.writable(k)[s*sectorSize:][:sectorSize]
				clear(sector[now.readAt(sector, int64(k)*chunkSize+int64(s)*sectorSize):])
			}
		}
	}
	// Last, so that bytes behind the end are zeros.
	left.setSize(size)
}
