package salvage

import (
	"maps"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/lsm/compact"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// output writes the new store: one run, and value segments in the order of keys.
type output struct {
	*survey
	to       *maker
	run      *run.Writer               // the new run, of all keys
	values   *segment.ValueWriter      // the value segment that is written; nil: none is
	misses   int                       // values that could not be read while values was written
	finished compact.Output            // value segments that are complete
	seen     map[entry.KeyspaceID]bool // keyspaces that have keys
}

// newOutput begins the new store.
func newOutput(v *survey, to *maker) *output {
	return &output{survey: v, to: to, seen: map[entry.KeyspaceID]bool{}, run: to.open.NewRunWriter(false, entry.NewExpiries(uint64(max(to.Now, 1))), nil)}
}

// writeEntry writes an entry with its value. damage says that the value can't be read.
func (o *output) writeEntry(e *entry.Entry) (damage, err error) {
	// e is the source's: the merge still compares it.
	moved := *e
	if e.Separated {
		if damage, err = o.moveValue(&moved); damage != nil || err != nil {
			return damage, err
		}
	}
	id, _ := entry.KeyspaceOf(e.Key)
	o.seen[id] = true
	return nil, o.run.Add(&moved)
}

// moveValue copies the value of e, and makes its handle the new one.
func (o *output) moveValue(e *entry.Entry) (damage, err error) {
	// A record that a collection has moved is found by its key: it is in the list of weak records.
	r, damage := o.segmentOf(e.Handle.Segment)
	if damage != nil {
		return damage, nil
	}
	if err := o.beginSegment(); err != nil {
		return nil, err
	}
	to, damage := o.values.MoveRecord(r.Reader, e.Handle, e.Key, e.Version)
	if damage != nil {
		o.misses++
		// Is it the old store that can't be read, or the new one that can't be written?
		if err := o.values.Flush(); err != nil {
			return nil, err
		}
		return damage, nil
	}
	e.Handle = to
	return nil, nil
}

// beginSegment begins a value segment if there is none, or if the present one is full.
func (o *output) beginSegment() (err error) {
	// After a large value that can't be read to its end, the next value is another attempt to write
	// the same place, and there is a limit of attempts (crypt.MaxAttempt).
	if o.values != nil && (o.values.Size() >= o.to.SegmentBytes || o.misses == crypt.MaxAttempt) {
		err = o.finishValues()
	}
	if o.values == nil && err == nil {
		o.values, err = o.to.open.NewValueWriter()
	}
	return err
}

// finishValues makes the value segment complete and durable, if there is one.
func (o *output) finishValues() error {
	if o.values == nil {
		return nil
	}
	s, err := o.values.Finish()
	if err != nil {
		return err
	}
	if s.Records > 0 {
		o.finished.Values = append(o.finished.Values, compact.DescribeValues(s))
	} else if err := o.values.Abort(); err != nil { // no value could be read
		return err
	}
	o.values, o.misses = nil, 0
	return nil
}

// finishStore makes all files durable, and returns the layout of the new store.
func (o *output) finishStore() (*layout.Layout, error) {
	// The damaged store is not needed any more. Its memory and descriptors go before the last sync.
	o.closeSegments()
	if err := o.finishValues(); err != nil {
		return nil, err
	}
	m, err := o.run.Finish()
	if err != nil {
		return nil, err
	}
	v := max(o.version, m.MaxVersion)
	// One version of each key, so history begins with the newest.
	e := &layout.Edit{LastVersion: v, Floor: v, NextFile: o.to.open.LastNum() + 1}
	o.finished.Describe(e)
	if len(m.Files) > 0 {
		e.AddRuns = []layout.Run{{ID: layout.RunID(m.Files[0].Num), Tier: layout.Base, Order: 1, RunMeta: m}}
	}
	if o.to.Ring != nil {
		e.DataKey.ID = o.to.Ring.Current()
	}
	if v > 0 {
		e.Clock = []layout.ClockSample{{Version: v, UnixMilli: o.to.Now}}
	}
	o.addKeyspaces(e, v)
	o.sum.Version = uint64(v)
	return layout.New().Apply(e)
}

// addKeyspaces adds those that are known, and those that have keys.
func (o *output) addKeyspaces(e *layout.Edit, v entry.Version) {
	for _, id := range slices.Sorted(maps.Keys(o.seen)) {
		// Keys without a known keyspace are kept, under a name that the user can find.
		if _, known := o.keyspaces[id]; !known && id != entry.DefaultKeyspace {
			k := layout.Keyspace{ID: id, Name: o.newName(id), Options: o.to.Defaults}
			o.keyspaces[id] = k
			c := newLoss(filename.New(filename.Manifest, max(o.manifest, 1)), -1, false, "name and options of a keyspace are lost: its name is %s now", k.Name)
			c.Keys = []errs.KeyRange{{Keyspace: k.Name}}
			o.reportLoss(c)
		}
		o.nextID = max(o.nextID, uint64(id)+1)
	}
	for _, id := range slices.Sorted(maps.Keys(o.keyspaces)) {
		k := o.keyspaces[id]
		o.sum.Keyspaces = append(o.sum.Keyspaces, k.Name)
		e.SetKeyspaces = append(e.SetKeyspaces, layout.Keyspace{ID: id, Name: k.Name, Options: k.Options})
		e.KeyspaceFloors = append(e.KeyspaceFloors, layout.KeyspaceFloor{ID: id, Version: v})
	}
	e.NextKeyspace = o.nextID
}

// abortWriters ends the writers. The claim of the directory removes their files.
func (o *output) abortWriters() {
	o.run.Abort()
	if o.values != nil {
		_ = o.values.Close()
	}
}
