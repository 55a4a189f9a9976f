package policy

import (
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/manifest"
)

// What has expired stays in its run until a merge passes. A store at rest merges
// a run for it when a step of its expiry has been in it for as long as Late
// allows, which is a share of the time to live: so a run is rewritten some dozen
// times within that at most. Sooner, and while clients write, a run is merged
// when much of it has expired; the rest then waits for other merges, for a day.
const (
	expiryGrace    = 20_000     // milliseconds after the end of a step, at least
	expiryPatience = 86_400_000 // milliseconds, while clients write
	expiryMuch     = 4          // a run's files / expiryMuch are much of it, if that is also
	expiryMuchData = 16         // its data, values in segments included, / expiryMuchData
	expiryCheap    = 4 << 20    // a run of this size is merged for anything
	expiryReach    = 4          // times the runs it is due for: what a merge down to the base may weigh

	memtableGrace    = 2 * expiryGrace
	memtablePatience = 600_000 // milliseconds, while clients write: more may come
)

// expiryDue is when, in Unix milliseconds, what expires in a run makes a merge
// of it worth its while; 0 = never.
func expiryDue(r *manifest.Run, idle bool) (due uint64) {
	cost := r.FileBytes()
	much := max(cost/expiryMuch, (cost+r.SeparatedBytes)/expiryMuchData)
	steps := r.Expiry
	if steps == nil && r.MinExpiry != 0 { // not recorded: then at least that
		steps = []entry.Expiring{{At: r.MinExpiry}}
	}
	var freed uint64
	for _, x := range steps {
		freed += x.Bytes
		wait := uint64(expiryGrace)
		if freed < much {
			if wait = max(wait, x.Late); !idle && cost > expiryCheap {
				wait = max(wait, expiryPatience)
			}
		}
		if at := later(x.At, wait); due == 0 || at < due {
			due = at
		}
	}
	return due
}

// later adds to a time; what never comes is the end of all times.
func later(at, wait uint64) uint64 {
	if at+wait < at {
		return ^uint64(0)
	}
	return at + wait
}

// ExpiryDue is the first time, in Unix milliseconds, at which Decide wants a
// merge because of what has expired, in a store that is idle or not; 0 = never.
func ExpiryDue(l *manifest.Layout, idle bool) (due uint64) {
	for _, r := range l.Runs() {
		if at := expiryDue(r, idle); at != 0 && (due == 0 || at < due) {
			due = at
		}
	}
	return due
}

// MemtableExpiryDue is when a memtable is to be flushed because of what expires
// in it, at least at this time; both in Unix milliseconds.
func MemtableExpiryDue(least uint64, idle bool) uint64 {
	if idle {
		return later(least, memtableGrace)
	}
	return later(least, memtablePatience)
}

// expired chooses the merge that is due for what has expired by now, if one is.
// It goes down to the base if that weighs little more, since then no deletes
// need take the place of what it drops.
func expired(runs []*manifest.Run, s State) *Compaction {
	due := func(r *manifest.Run) bool {
		at := expiryDue(r, s.Idle)
		return at != 0 && at <= s.Now
	}
	first := slices.IndexFunc(runs, due)
	if first < 0 {
		return nil
	}
	end := first + 1
	for i := first; i < len(runs); i++ {
		if due(runs[i]) {
			end = i + 1
		}
	}
	row, rest := weight(runs[first:end]), weight(runs[first:])
	if rest <= max(expiryReach*row, idleTiny) {
		end = len(runs)
	}
	tier := manifest.Upper
	if end == len(runs) {
		tier = manifest.Base
	}
	return into(tier, runs[first:end], "entries have expired")
}

func weight(runs []*manifest.Run) (n uint64) {
	for _, r := range runs {
		n += r.FileBytes()
	}
	return n
}
