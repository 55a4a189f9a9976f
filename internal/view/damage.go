package view

import (
	"bytes"
	"errors"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
)

// NameKeys sets the Keys of an err that is an *errs.Corruption: the keys that the damage
// concerns, as far as that is known. Call it once for an error, before it is returned
// to the user.
func (v *View) NameKeys(err error) {
	if err == nil { // looked at first: below, c is allocated
		return
	}
	var c *errs.Corruption
	if !errors.As(err, &c) || c.Keys != nil || c.FollowUp {
		return
	}
	lo, hi, ok := errs.Concerned(c)
	if !ok {
		lo, hi, ok = v.damagedRange(c)
	}
	if ok {
		c.Keys = keyRanges(v.Layout, lo, hi)
	}
}

// withKeys is NameKeys of an error that was met under the stored key: if nothing else is known, the
// damage concerns this key.
func (v *View) withKeys(err error, key []byte) error {
	var c *errs.Corruption
	if errors.As(err, &c) && c.Keys == nil {
		// The key is copied: the error outlives the caller's memory.
		key = bytes.Clone(key)
		errs.Concern(c, key, append(key[:len(key):len(key)], 0))
		v.NameKeys(err)
	}
	return err
}

// damagedRange returns the range of stored keys that damage in a run concerns; not ok if the damage
// is not in a run.
func (v *View) damagedRange(c *errs.Corruption) (lo, hi []byte, ok bool) {
	name, ok := filename.Parse(c.File)
	if !ok || name.Kind != filename.Run {
		return nil, nil, false
	}
	runs := v.Layout.Runs()
	i := slices.IndexFunc(runs, func(m *layout.Run) bool {
		return slices.ContainsFunc(m.Files, func(f layout.RunFile) bool { return f.Num == name.Number })
	})
	if i < 0 {
		return nil, nil, false
	}
	// Above the oldest run: a read that passes the damage may find older versions below.
	c.Stale = i < len(runs)-1
	if j := slices.IndexFunc(v.Runs, func(r *Run) bool { return r.ID == runs[i].ID }); j >= 0 {
		lo, hi = v.Runs[j].KeysAt(c.File, c.Offset)
	} else { // the View has no reader of the run: all of it counts
		lo, hi = run.Bounds(&runs[i].RunMeta)
	}
	return lo, hi, true
}

// keyRanges returns the keys of each keyspace that lie in a range of stored keys. They are user
// keys, without the prefix of the keyspace.
func keyRanges(l *layout.Layout, lo, hi []byte) (list []errs.KeyRange) {
	// within adds the part of the range that lies in one keyspace.
	within := func(id entry.KeyspaceID, name string) {
		first, past := entry.AppendKeyspace(nil, id), entry.AfterKeyspace(id)
		if bytes.Compare(lo, past) >= 0 || hi != nil && (bytes.Compare(hi, first) <= 0 || bytes.Compare(hi, lo) <= 0) {
			return
		}
		// Clones: the error outlives the memory that the bounds lie in.
		r := errs.KeyRange{Keyspace: name}
		if bytes.Compare(lo, first) > 0 {
			r.Lower = bytes.Clone(lo[len(first):])
		}
		if hi != nil && bytes.Compare(hi, past) < 0 {
			r.Upper = bytes.Clone(hi[len(first):])
		}
		list = append(list, r)
	}
	within(entry.DefaultKeyspace, "")
	for _, k := range l.Keyspaces() {
		within(k.ID, k.Name)
	}
	return list
}
