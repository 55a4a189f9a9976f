package layout

import (
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
)

// Superseded counts entries of one keyspace that newer entries or range deletes have replaced.
// Retention decides how long they stay: they are retained first, and dead later.
type Superseded struct {
	Keyspace  entry.KeyspaceID
	Version   entry.Version // newest by which one was replaced: while a reader may ask for less, they stay
	Keep      uint64        // they also stay while the keyspace keeps as many versions of a key; 0 = they don't
	Entries   uint64
	Bytes     uint64 // of their keys and inline values
	Separated uint64 // of their values in segments
}

// AnyKeyspace stands for all keyspaces: their retention decides together.
const AnyKeyspace = entry.MaxKeyspaceID

// Add adds what o counts to s.
func (s *Superseded) Add(o *Superseded) {
	s.Version = max(s.Version, o.Version)
	s.Entries, s.Bytes, s.Separated = s.Entries+o.Entries, s.Bytes+o.Bytes, s.Separated+o.Separated
}

// Shrink leaves a part of what s counts, from 0 to 1.
func (s *Superseded) Shrink(part float64) {
	s.Entries, s.Bytes, s.Separated = uint64(float64(s.Entries)*part), uint64(float64(s.Bytes)*part), uint64(float64(s.Separated)*part)
}

// Account gathers Superseded in steps of versions, which are few however much it is given.
// The zero value is empty and ready.
type Account struct {
	steps []Superseded // ascending by order
	from  int          // steps[from:upTo] are those of the keyspace and Keep that were counted last
	upTo  int
}

const (
	fewSteps     = 16   // of a keyspace: as many as are made at once,
	mostSteps    = 32   // or, while versions only rise, before two become one
	mostAccounts = 1024 // steps of all keyspaces
)

// compareGroups is the order of groups of steps: by keyspace, by Keep from the greatest on.
func compareGroups(a, b Superseded) int {
	return cmp.Or(cmp.Compare(a.Keyspace, b.Keyspace), cmp.Compare(b.Keep, a.Keep))
}

// compareSteps is the order of steps: by group, by version.
func compareSteps(a, b Superseded) int {
	return cmp.Or(compareGroups(a, b), cmp.Compare(a.Version, b.Version))
}

// Add counts s, in a step that ends at its version or later.
func (a *Account) Add(s Superseded) {
	if a.from == a.upTo || a.steps[a.from].Keyspace != s.Keyspace || a.steps[a.from].Keep != s.Keep {
		a.findSteps(&s)
	}
	steps := a.steps[a.from:a.upTo]
	i, found := slices.BinarySearchFunc(steps, s, compareSteps)
	switch {
	// Counted at a later version than its own, so it is taken for retained a little too long, never
	// too short.
	case found || i < len(steps) && len(steps) >= fewSteps:
		steps[i].Add(&s)
		return
	case s.Keep != 0 && len(steps) > 0: // time alone frees none of them: one step is enough
		steps[0].Add(&s)
		return
	}
	a.steps = slices.Insert(a.steps, a.from+i, s)
	if a.upTo++; a.upTo-a.from > mostSteps {
		kept := a.from + len(mergeSteps(a.steps[a.from:a.upTo], 2))
		a.steps, a.upTo = slices.Delete(a.steps, kept, a.upTo), kept
	}
}

// findSteps makes from and upTo the steps of a keyspace.
func (a *Account) findSteps(s *Superseded) {
	if len(a.steps) > mostAccounts {
		a.shrinkSteps()
	}
	a.from, _ = slices.BinarySearchFunc(a.steps, *s, compareGroups)
	a.upTo = a.from
	for a.upTo < len(a.steps) && compareGroups(a.steps[a.upTo], *s) == 0 {
		a.upTo++
	}
}

// mergeSteps makes one step of as many as follow each other in a group. It keeps the latest of
// their versions: late, not early.
func mergeSteps(steps []Superseded, many int) []Superseded {
	kept, n := steps[:0], 0 // the last one kept was made of n steps
	for _, s := range steps {
		if last := len(kept) - 1; n > 0 && n < many && compareGroups(kept[last], s) == 0 {
			kept[last].Add(&s)
			n++
		} else {
			kept, n = append(kept, s), 1
		}
	}
	return kept
}

// shrinkSteps leaves one step of each keyspace and, if these are still many, one for all but those
// with the most bytes.
func (a *Account) shrinkSteps() {
	kept := mergeSteps(a.steps, len(a.steps))
	// The places have moved, so the next Add looks for its keyspace anew.
	a.steps, a.from, a.upTo = kept, 0, 0
	if len(kept) <= mostAccounts/2 {
		return
	}
	slices.SortStableFunc(kept, func(x, y Superseded) int { return cmp.Compare(y.Bytes+y.Separated, x.Bytes+x.Separated) })
	rest := Superseded{Keyspace: AnyKeyspace}
	for _, s := range kept[mostAccounts/2:] {
		if s.Keep == 0 { // of others it is not known when they can go: they count as live
			rest.Add(&s)
		}
	}
	a.steps = append(kept[:mostAccounts/2], rest)
	slices.SortFunc(a.steps, compareSteps)
}

// List returns what was counted, by keyspace and version; never nil.
func (a *Account) List() []Superseded { return append([]Superseded{}, a.steps...) }
