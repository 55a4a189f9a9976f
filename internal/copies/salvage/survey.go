package salvage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/vlog/segment"
	"github.com/brockdb/brock/report"
)

// survey collects what the files of the damaged store say of the store, before any keys are
// read: its identity, its files, and what the manifest and the runs tell.
type survey struct {
	filename.Store                                   // the damaged one, as far as it is known
	fn             func(*errs.Corruption)            // gets each loss; nil: nobody does
	sum            report.Salvage                    // of the new store, so far
	keys           keyring.Provider                  // of the damaged store; nil: it is plain
	files          map[filename.Kind][]entry.FileNum // the files that exist, in ascending order
	opens          *pageio.Files                     // opens its files, at most openFiles at once
	keyIDs         map[filename.Name]crypt.FileKeyID // of files, as edits and runs name them

	segments map[filename.Name]openedSegment // those that were opened so far

	manifest entry.FileNum // number of the newest manifest; 0 if there is none

	layout *layout.Layout // the layout up to the first edit that is lost
	exact  bool           // layout is the newest one: a file that it doesn't name is garbage

	told bool                         // live is complete, because the runs list all runs
	live map[layout.RunID]*layout.Run // the runs, from all edits that can be read
	gone map[entry.FileNum]bool       // run files that an edit has dropped
	// version of all records, or entries, of a file that doesn't say it itself
	stamps    map[filename.Name]entry.Version
	doubt     map[entry.Version]entry.FileNum // last segment of a large transaction that lost records
	keyspaces map[entry.KeyspaceID]layout.Keyspace
	ids       []entry.KeyspaceID          // of keyspaces and of the default one, ascending
	names     map[string]entry.KeyspaceID // names of keyspaces
	dropped   map[entry.KeyspaceID]bool   // keyspaces that are gone: their keys don't count
	nextID    uint64                      // number of the next new keyspace
	version   entry.Version               // the newest version that is known
}

// newSurvey reads what is left of SUPER, keyring and manifest, and, if that is not enough, what the
// runs say of the store.
func newSurvey(s filename.Store, keys keyring.Provider, report func(*errs.Corruption)) (*survey, error) {
	v := &survey{
		Store: s, keys: keys, fn: report, files: map[filename.Kind][]entry.FileNum{}, opens: pageio.NewFiles(s.FS, openFiles),
		live: map[layout.RunID]*layout.Run{}, gone: map[entry.FileNum]bool{}, stamps: map[filename.Name]entry.Version{}, doubt: map[entry.Version]entry.FileNum{}, keyIDs: map[filename.Name]crypt.FileKeyID{}, segments: map[filename.Name]openedSegment{},
		keyspaces: map[entry.KeyspaceID]layout.Keyspace{}, dropped: map[entry.KeyspaceID]bool{}, nextID: 1,
	}
	if err := v.listFiles(); err != nil {
		return nil, err
	}
	super, err := v.findIdentity()
	if err == nil {
		super, err = v.openKeys(super)
	}
	if err == nil && super.Session != 0 && s.ValueDir == s.Dir {
		err = fmt.Errorf("%w: its values lie in another directory, which must be named", errs.ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	return v, v.readManifest(super)
}

// openFiles is how many files of the damaged store are open at once, at most.
const openFiles = 128

// listFiles finds the files of the store by their names.
func (v *survey) listFiles() error {
	names, err := v.List()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errs.ErrNotExist, err)
	}
	for _, name := range names {
		v.files[name.Kind] = append(v.files[name.Kind], name.Number)
	}
	for _, list := range v.files {
		slices.Sort(list)
	}
	return err
}

// hasFile reports whether there is a file of this name.
func (v *survey) hasFile(k filename.Kind, num entry.FileNum) bool {
	_, found := slices.BinarySearch(v.files[k], num)
	return found
}

// findIdentity finds out the UUID of the store. SUPER has it. If SUPER is damaged, the UUID that
// most files have is taken.
func (v *survey) findIdentity() (super manifest.Super, err error) {
	super, err = manifest.ReadSuper(v.FS, v.Dir)
	// ErrFormat is no damage: another release can read it, and this one would lose what it doesn't
	// know.
	if v.UUID = super.UUID; err == nil || errors.Is(err, errs.ErrFormat) {
		return super, err
	}
	v.reportLoss(&errs.Corruption{File: filename.Of(filename.Super, 0), Offset: -1, Reason: "it can't be read", Err: err})
	votes := map[[16]byte]int{}
	for kind, list := range v.files {
		for _, num := range list {
			if uuid, ok := v.ownerOf(kind, num); ok {
				votes[uuid]++
			}
		}
	}
	for uuid, n := range votes {
		// Of equal numbers the smaller UUID, so that the result doesn't depend on chance.
		if most := votes[v.UUID]; n > most || n == most && bytes.Compare(uuid[:], v.UUID[:]) < 0 {
			v.UUID = uuid
		}
	}
	if len(votes) == 0 {
		return super, fmt.Errorf("%w: no file in %s says which store it belongs to", errs.ErrNotExist, v.Dir)
	}
	return super, nil
}

// ownerOf returns the UUID of the store that a file names as its own.
func (v *survey) ownerOf(kind filename.Kind, num entry.FileNum) (uuid [16]byte, ok bool) {
	switch kind {
	case filename.Manifest:
		return manifest.ReadOwner(v.FS, v.Dir, num)
	case filename.Run:
		return run.Owner(v.opens, filepath.Join(v.Dir, filename.Of(kind, num)), num)
	case filename.Journal, filename.Value:
		return segment.ReadOwner(v.segmentConfig(), kind, num)
	}
	return uuid, false
}

// segmentConfig says how segments are opened.
func (v *survey) segmentConfig() segment.Config {
	return segment.Config{FS: v.FS, Dir: v.ValueDir, UUID: v.UUID, Ring: v.Ring, Files: v.opens}
}

// runConfig says how files of runs are opened.
func (v *survey) runConfig() run.OpenConfig {
	return run.OpenConfig{FS: v.FS, Dir: v.Dir, UUID: v.UUID, Ring: v.Ring, NoMap: true, Files: v.opens}
}

// readManifest reads what is left of the newest manifest.
func (v *survey) readManifest(super manifest.Super) error {
	num := super.Manifest
	if !v.hasFile(filename.Manifest, num) {
		// SUPER names a new manifest only when that has all of the old one's content. So the
		// newest manifest is the best one, even if SUPER doesn't name it.
		num = 0
		for _, n := range v.files[filename.Manifest] {
			if uuid, ok := manifest.ReadOwner(v.FS, v.Dir, n); !ok || uuid == v.UUID {
				num = n
			}
		}
	}
	m, err := manifest.ReadRemains(v.FS, v.Dir, v.UUID, num, &super, v.Ring)
	if err != nil {
		return err
	}
	if m.Number == 0 {
		v.reportLoss(errs.NewCorruption("MANIFEST", -1, "there is none"))
	}
	for _, c := range m.Damage {
		v.reportLoss(c)
	}
	v.manifest, v.layout = m.Number, m.Layout
	// Whole isn't enough: edits at the end may be missing without a trace. Then a run that is
	// missing would tell.
	v.exact = m.Number != 0 && m.Whole && (m.Proven || v.hasAllRuns())
	var replaced []layout.RunID
	if !v.exact {
		// First, as the manifest is newer than any run.
		replaced = v.readAbout()
	}
	v.learnList(m.Layout.Snapshot())
	// Behind the first edit that is lost no layout can be computed. Each later edit still says
	// something that is true by itself.
	for _, e := range m.Edits {
		v.learnEdit(e)
	}
	for _, id := range replaced {
		delete(v.live, id)
	}
	v.renameTwins()
	v.ids = append([]entry.KeyspaceID{entry.DefaultKeyspace}, slices.Sorted(maps.Keys(v.keyspaces))...)
	return nil
}

// renameTwins makes the names of keyspaces unique. If two have the same name, an edit that dropped
// or renamed the older one is lost: the older one gets another name.
func (v *survey) renameTwins() {
	v.names = map[string]entry.KeyspaceID{}
	for _, id := range slices.Sorted(maps.Keys(v.keyspaces)) {
		k := v.keyspaces[id]
		if older, twice := v.names[k.Name]; twice {
			other := v.keyspaces[older]
			other.Name = v.newName(older)
			v.keyspaces[older] = other
		}
		v.names[k.Name] = id
	}
}

// readAbout learns what the files of runs say of the store. Each has a list of the runs at the
// time when it was written. The runs of the newest list should exist, unless another run has
// replaced them: those are returned.
func (v *survey) readAbout() (replaced []layout.RunID) {
	v.told = true
	learned := false
	// Files that are not the last one of their run, and that no list names yet.
	open := map[entry.FileNum]bool{}
	// Ascending, so the last list that is read is the newest.
	for _, num := range v.files[filename.Run] {
		e, last, err := v.readList(num)
		if err != nil {
			v.told = false // this file may have named a run that no other file names
			continue
		}
		if e == nil {
			continue
		}
		learned = true
		for _, r := range e.AddRuns {
			for _, f := range r.Files {
				delete(open, f.Num)
			}
		}
		if !last {
			open[num] = true
		}
		// Not dropped for certain: the run that replaces them may never have been finished.
		replaced, e.DropRuns = append(replaced, e.DropRuns...), nil
		clear(v.live)
		v.learnList(e)
	}
	// If a file is left, the rest of its run, with the list there, is missing.
	v.told = v.told && learned && len(open) == 0
	return replaced
}

// readList reads the list in a file of a run; nil if it has none.
func (v *survey) readList(num entry.FileNum) (e *layout.Edit, last bool, err error) {
	r, err := run.OpenRemains(v.runConfig(), num, 0, crypt.FileKeyID{})
	if err != nil {
		return nil, false, err
	}
	about, last := r.About()
	// A plain file in an encrypted store says nothing that could be believed.
	if !r.Whole() || r.Plain() && v.Ring != nil {
		err = errs.NewCorruption(filename.Of(filename.Run, num), -1, "it has no directory to believe")
	} else if about != nil {
		e, err = manifest.DecodeEdit(about)
	}
	return e, last, errors.Join(err, r.Close())
}

// learnList is learn for an edit that lists all runs and keyspaces of the store at one time.
func (v *survey) learnList(e *layout.Edit) {
	there := map[entry.KeyspaceID]bool{}
	for _, k := range e.SetKeyspaces {
		there[k.ID] = true
	}
	// No ID is used twice. So an ID below NextKeyspace that is not listed was dropped.
	for id := uint64(1); id < e.NextKeyspace && id <= uint64(entry.MaxKeyspaceID); id++ {
		if id := entry.KeyspaceID(id); !there[id] {
			v.dropKeyspace(id)
		}
	}
	v.learnEdit(e)
}

// hasAllRuns reports whether all files of the layout's runs exist. If one is missing, an edit that
// dropped its run may have been lost with the end of the manifest.
func (v *survey) hasAllRuns() bool {
	for f := range v.layout.Files() {
		if f.Kind == filename.Run && !v.hasFile(f.Kind, f.Number) {
			return false
		}
	}
	return true
}

// learnEdit takes from an edit what is true even if other edits are missing.
func (v *survey) learnEdit(e *layout.Edit) {
	for _, id := range e.DropRuns {
		if r := v.live[id]; r != nil {
			for _, f := range r.Files {
				// The file may still be there: a crash came before it was removed.
				v.gone[f.Num] = true
			}
		}
		delete(v.live, id)
	}
	for _, r := range e.AddRuns {
		v.live[r.ID] = &r
		for _, f := range r.Files {
			name := filename.New(filename.Run, f.Num)
			v.stamps[name], v.keyIDs[name] = r.Stamp, f.KeyID
		}
		v.version = max(v.version, r.MaxVersion)
	}
	for _, s := range e.AddSegments {
		name := filename.New(s.Kind, s.Num)
		if v.stamps[name] = s.Stamp; s.FileBytes > 0 { // a run tells nothing but the stamp
			v.keyIDs[name] = s.KeyID
		}
	}
	for _, j := range e.JournalEnds {
		if name := filename.New(filename.Journal, j.File); !j.KeyID.IsZero() {
			v.keyIDs[name] = j.KeyID // in an encrypted store a journal that is not flushed is never plain
		}
	}
	for _, k := range e.SetKeyspaces {
		if !v.dropped[k.ID] {
			v.keyspaces[k.ID] = k
		}
		v.nextID = max(v.nextID, uint64(k.ID)+1)
	}
	for _, id := range e.DropKeyspaces {
		v.dropKeyspace(id)
	}
	v.nextID = max(v.nextID, e.NextKeyspace)
	v.version = max(v.version, e.LastVersion)
}

// dropKeyspace notes that a keyspace is gone. Numbers are never used twice, so that stays true
// whatever other edits are lost.
func (v *survey) dropKeyspace(id entry.KeyspaceID) {
	delete(v.keyspaces, id)
	v.dropped[id] = true
}

// isForgotten reports whether key belongs to a dropped keyspace, or to none at all.
func (v *survey) isForgotten(key []byte) bool {
	id, ok := entry.KeyspaceOf(key)
	return !ok || v.dropped[id]
}

// reportLoss reports a loss.
func (v *survey) reportLoss(c *errs.Corruption) {
	v.sum.Losses++
	if v.fn != nil {
		v.fn(c)
	}
}

// reportLostKeys reports damage by which keys from lower to upper may be lost. Both are stored keys
// and included; nil is no bound. It looks at no keyspace beyond them: there may be many damages.
func (v *survey) reportLostKeys(c *errs.Corruption, lower, upper []byte) {
	from := 0
	if id, ok := entry.KeyspaceOf(lower); ok {
		// A store may have a million keyspaces.
		from, _ = slices.BinarySearch(v.ids, id)
	}
	for _, id := range v.ids[from:] {
		prefix := entry.AppendKeyspace(nil, id)
		if upper != nil && bytes.Compare(upper, prefix) < 0 {
			break
		}
		c.Keys = append(c.Keys, keyRange(prefix, v.keyspaces[id].Name, lower, upper))
	}
	v.reportLoss(c)
}

// keyRange returns the part of a range of stored keys that lies in the keyspace with a prefix.
func keyRange(prefix []byte, name string, lower, upper []byte) errs.KeyRange {
	r := errs.KeyRange{Keyspace: name}
	if key, found := bytes.CutPrefix(lower, prefix); found && len(key) > 0 {
		r.Lower = bytes.Clone(key)
	}
	if key, found := bytes.CutPrefix(upper, prefix); found {
		// The bound is included: the next greater key ends the range.
		r.Upper = append(bytes.Clone(key), 0)
	}
	return r
}

// newLoss returns a report of damage to a file.
func newLoss(name filename.Name, offset int64, stale bool, format string, args ...any) *errs.Corruption {
	c := errs.NewCorruption(name.String(), offset, format, args...)
	c.Stale = stale
	return c
}

// newName returns a name that a keyspace gets in the new store, as its own is lost.
func (v *survey) newName(id entry.KeyspaceID) string {
	name := fmt.Sprintf("salvaged-%d", id)
	for taken := true; taken; {
		if _, taken = v.names[name]; taken {
			name += "-"
		}
	}
	v.names[name] = id
	return name
}
