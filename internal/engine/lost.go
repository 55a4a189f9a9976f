package engine

import (
	"errors"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/vlog/journal"
	"github.com/brockdb/brock/report"
)

// lostBehind describes what Open has left out because of damage; nil if there was none.
func lostBehind(m *manifest.Recovery, v *view.View, result *journal.ReplayResult) *report.Loss {
	damage := m.Damage
	l := &report.Loss{Edits: int64(m.LostEdits), Version: uint64(newest(v))}
	if damage != nil {
		l.Bytes = m.CutBytes
	}
	if j := result.Lost; j != nil {
		// Damage of the manifest comes first: what the journal lacks then may follow from it.
		if damage == nil && !errors.As(j.Damage, &damage) {
			return nil
		}
		l.Commits, l.LastVersion = int64(j.Transactions), uint64(j.LastVersion)
		l.Bytes += result.CutBytes
	}
	if damage == nil {
		return nil
	}
	l.Damage = damage
	// The loss may be of edits only. Then no version beyond what is left is known.
	l.LastVersion = max(l.LastVersion, l.Version)
	return l
}

// newest returns the greatest version of all entries of a View.
func newest(v *view.View) (last entry.Version) {
	for _, r := range v.Runs {
		last = max(last, r.MaxVersion())
	}
	for _, t := range v.Tables {
		last = max(last, t.MaxVersion())
	}
	return last
}

// greatestFloor returns the greatest floor of all keyspaces. Below its floor, history of a
// keyspace may be gone.
func greatestFloor(l *layout.Layout) entry.Version {
	floor := l.Floor()
	for _, k := range l.Keyspaces() {
		floor = max(floor, k.Floor())
	}
	return floor
}
