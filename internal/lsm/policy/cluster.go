package policy

import "slices"

// planClustering chooses a compaction of all runs that also moves values out of segments that the
// journal left, the oldest first, where they lie in the order of their arrival, to new ones, in the
// order of keys. It is nil unless nobody writes, and these segments' share of the bytes that scans
// have jumped to pays for it.
func (v *balance) planClustering() *Compaction {
	if !v.state.Idle || v.state.JumpedBytes == 0 || len(v.unsorted) == 0 {
		return nil
	}
	c := newCompaction(v.layout.Runs(), "scans jump")
	var all, moved uint64
	// At least one segment, and no more than the piece that disk space is there for at a time.
	for _, g := range v.unsorted {
		if all += g.live; len(c.Cluster) == 0 || moved+g.live <= max(clusterBytes, v.runs) {
			c.Cluster, moved = append(c.Cluster, g.num), moved+g.live
		}
	}
	slices.Sort(c.Cluster)
	// Scans have jumped among all of them: a part is paid by its share of the jumps.
	c.Price = uint64(float64(v.state.JumpedBytes) * (float64(moved) / float64(all)))
	// Runs are written anew, too, as their handles change.
	if c.Price*clusterFactor < moved+v.runs {
		return nil
	}
	return c
}
