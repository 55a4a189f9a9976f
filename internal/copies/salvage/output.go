package salvage

import (
	"fmt"
	"maps"
	"slices"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// output writes the new store: one run, and value segments in the order of keys.
type output struct {
	*survey
	to       *maker
	run      *run.Writer          // the new run, of all keys
	values   *segment.ValueWriter // the value segment that is written; nil: none is
	moved    uint64               // bytes of values in values
	misses   int                  // values that could not be read while values was written
	finished []layout.Segment     // value segments that are complete
	// segments of the damaged store, opened when they are first needed
	readers     map[entry.FileNum]*origin
	forwardings map[entry.FileNum]*segment.Forwarding // by source
	expiries    *entry.Expiries

	id   entry.KeyspaceID // of the last key
	seen map[entry.KeyspaceID]bool
}

// origin reads the values of a segment of the damaged store.
type origin struct {
	*segment.Reader
	err error // why it can't be opened; nil if it is open
}

// newOutput begins the new store. A forwarding table that can't be read is reported: its values may
// still be found by their keys.
func newOutput(v *survey, to *maker) *output {
	o := &output{
		survey: v, to: to, readers: map[entry.FileNum]*origin{}, forwardings: map[entry.FileNum]*segment.Forwarding{}, seen: map[entry.KeyspaceID]bool{},
		expiries: entry.NewExpiries(uint64(max(to.Now, 1))),
	}
	o.run = run.NewWriter(run.WriterConfig{
		FS: to.FS, Dir: to.Dir, UUID: to.UUID, Ring: to.ring, Seed: to.Seed, NextNum: to.nextNum, FileBytes: to.RunFileBytes, Expiries: o.expiries,
	})
	for _, num := range v.files[filename.Forwarding] {
		m, err := v.openForwarding(num)
		if err != nil {
			c := damaged(filename.New(filename.Forwarding, num), -1, false, "it can't be read: values are looked for by their keys")
			c.Err = err
			v.lose(c)
			continue
		}
		o.forwardings[m.Header().Source] = m
	}
	return o
}

// openForwarding opens a forwarding table, if it is whole.
func (v *survey) openForwarding(num entry.FileNum) (*segment.Forwarding, error) {
	keyID, err := v.keyIDOf(filename.New(filename.Forwarding, num))
	if err != nil {
		return nil, err
	}
	return segment.OpenForwarding(v.segmentConfig(), num, keyID, true)
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
	if id, _ := entry.KeyspaceOf(e.Key); id != o.id {
		o.id = id
		o.seen[id] = true
	}
	return nil, o.run.Add(&moved)
}

// moveValue copies the value of e, and makes its handle the new one.
func (o *output) moveValue(e *entry.Entry) (damage, err error) {
	h, r, damage := o.findRecord(e.Handle)
	if damage != nil {
		return damage, nil
	}
	if err := o.beginSegment(); err != nil {
		return nil, err
	}
	to, damage := o.values.Move(r.Reader, h, e.Key, e.Version)
	if damage != nil {
		o.misses++
		// Is it the old store that can't be read, or the new one that can't be written?
		if err := o.values.Flush(); err != nil {
			return nil, err
		}
		return damage, nil
	}
	e.Handle = to
	o.moved += to.Length
	return nil, nil
}

// findRecord returns where the record of a handle is now, and the segment there.
func (o *output) findRecord(h entry.Handle) (_ entry.Handle, _ *origin, err error) {
	defer pageio.Guard(pageio.Arm(), &err, filename.Of(filename.Forwarding, 0))
	r := o.openSegment(h.Segment)
	m := o.forwardings[h.Segment]
	// If the old segment is still there, its record is as good as the moved one.
	if r.err == nil || m == nil {
		return h, r, r.err
	}
	to, found, err := m.Lookup(h.Offset)
	if err == nil && !found {
		err = errs.NewCorruption(m.Name(), -1, "it has no such record")
	}
	if err != nil {
		return h, nil, err
	}
	h.Segment, h.Offset = m.Header().Target, to
	r = o.openSegment(h.Segment)
	return h, r, r.err
}

// openSegment opens a segment of the damaged store once. Its origin has the error if that fails.
func (o *output) openSegment(num entry.FileNum) *origin {
	if r := o.readers[num]; r != nil {
		return r
	}
	r := &origin{err: errs.NewCorruption(fmt.Sprintf("segment %d", num), -1, "it is not there")}
	for _, kind := range []filename.Kind{filename.Value, filename.Journal} {
		if o.hasFile(kind, num) {
			name := filename.New(kind, num)
			var keyID crypt.FileKeyID
			if keyID, r.err = o.keyIDOf(name); r.err == nil {
				// AnyHeader: each record proves itself, so a damaged header costs nothing.
				r.Reader, r.err = segment.Open(o.segmentConfig(), kind, num, segment.OpenOptions{NoMap: true, AnyHeader: true, Stamp: o.stamps[name], KeyID: keyID})
			}
			break
		}
	}
	o.readers[num] = r
	return r
}

// beginSegment begins a value segment if there is none, or if the present one is full.
func (o *output) beginSegment() (err error) {
	// After a large value that can't be read to its end, the next value is another attempt to write
	// the same place, and there is a limit of attempts (crypt.MaxAttempt).
	if o.values != nil && (o.values.Size() >= o.to.SegmentBytes || o.misses == crypt.MaxAttempt) {
		err = o.finishValues()
	}
	if o.values == nil && err == nil {
		o.values, err = segment.NewValueWriter(segment.Config{FS: o.to.FS, Dir: o.to.Dir, UUID: o.to.UUID, Ring: o.to.ring}, o.to.nextNum())
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
		o.finished = append(o.finished, layout.Segment{
			Num: s.Number, Kind: filename.Value, FileBytes: uint64(s.Size), Records: s.Records, Bytes: o.moved, KeyID: s.KeyID,
		})
	} else if err := o.values.Abort(); err != nil { // no value could be read
		return err
	}
	o.values, o.moved, o.misses = nil, 0, 0
	return nil
}

// finishStore makes all files durable, and returns the layout of the new store.
func (o *output) finishStore() (*layout.Layout, error) {
	// The damaged store is not needed any more. Its memory and descriptors go before the last sync.
	o.closeSources()
	if err := o.finishValues(); err != nil {
		return nil, err
	}
	m, err := o.run.Finish()
	if err != nil {
		return nil, err
	}
	v := max(o.version, m.MaxVersion)
	// One version of each key, so history begins with the newest.
	e := &layout.Edit{AddSegments: o.finished, LastVersion: v, Floor: v, NextFile: o.to.last + 1}
	if len(m.Files) > 0 {
		e.AddRuns = []layout.Run{{ID: layout.RunID(m.Files[0].Num), Tier: layout.Base, Order: 1, RunMeta: m}}
	}
	if o.to.ring != nil {
		e.DataKey.ID = o.to.ring.Current()
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
			c := damaged(filename.New(filename.Manifest, max(o.manifest, 1)), -1, false, "name and options of a keyspace are lost: its name is %s now", k.Name)
			c.Keys = []errs.KeyRange{{Keyspace: k.Name}}
			o.lose(c)
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

// closeSources closes the files of the damaged store.
func (o *output) closeSources() {
	for _, r := range o.readers {
		if r.err == nil {
			_ = r.Close()
		}
	}
	for _, m := range o.forwardings {
		_ = m.Close()
	}
	clear(o.readers)
	clear(o.forwardings)
}

// abort ends the writers. The claim of the directory removes their files.
func (o *output) abort() {
	o.closeSources()
	o.run.Abort()
	if o.values != nil {
		_ = o.values.Close()
	}
}
