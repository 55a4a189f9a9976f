package policy

import (
	"slices"

	"github.com/brockdb/brock/internal/manifest"
)

// What has expired stays in its run until a merge passes. A run is merged for it
// when that is due: soon after it expired if it is a fair share of the run's
// files, so that the merge frees much for what it writes, or these are small; else later, by as much
// as it is too little, and at the latest after expiryGrace * expiryPatience.
// Meanwhile more expires, which is then dropped by the same merge.
const (
	expiryGrace    = 20_000  // milliseconds from the end of a step of expiry
	expiryShare    = 64      // a fair share is a run's files / expiryShare
	expiryPatience = 180     // an hour
	expiryCheap    = 4 << 20 // a run of this size is merged for anything
	expiryReach    = 4       // times the runs it is due for: what a merge down to the base may weigh
)

// expiryDue is when, in Unix milliseconds, what expires in a run makes a merge
// of it worth its while; 0 = never, or by then unknown.
func expiryDue(r *manifest.Run) (due uint64) {
	cost := r.FileBytes()
	var freed, first uint64
	for _, x := range r.Expiry {
		if x.Entries == 0 {
			continue
		}
		if first == 0 {
			first = x.At
		}
		freed += x.Bytes
		wait := uint64(expiryGrace)
		if fair := saturatingMul(freed, expiryShare); fair < cost && cost > expiryCheap {
			wait *= min(cost/max(fair, 1)+1, expiryPatience)
		}
		at := max(first+wait, x.At)
		if at < first { // no time that comes
			at = ^uint64(0)
		}
		if due == 0 || at < due {
			due = at
		}
	}
	return due
}

// ExpiryDue is the first time, in Unix milliseconds, at which Decide wants a
// merge because of what has expired; 0 = never.
func ExpiryDue(l *manifest.Layout) (due uint64) {
	for _, r := range l.Runs() {
		if at := expiryDue(r); at != 0 && (due == 0 || at < due) {
			due = at
		}
	}
	return due
}

// MemtableExpiryDue is when a memtable is to be flushed because of what expires
// in it, at least at this time; both in Unix milliseconds.
func MemtableExpiryDue(least uint64) uint64 {
	if due := least + 2*expiryGrace; due > least {
		return due
	}
	return ^uint64(0)
}

// expired chooses the merge that is due for what has expired by now, if one is.
// It goes down to the base if that weighs little more, since then no deletes
// need take the place of what it drops.
func expired(runs []*manifest.Run, now uint64) *Merge {
	due := func(r *manifest.Run) bool {
		at := expiryDue(r)
		return at != 0 && at <= now
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
