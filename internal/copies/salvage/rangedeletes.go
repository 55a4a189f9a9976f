package salvage

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/meta"
)

// rangeDeletes collects range deletes in bounded memory. What exceeds it goes to runs, which have
// the newest range delete at each place only: older ones delete nothing more, as the new store has
// one version of each key.
type rangeDeletes struct {
	levels
	limit int64         // bytes of memory from which on set goes to a run
	set   *rangedel.Set // those in memory; nil: none
}

// newRangeDeletes returns an empty one that takes about limit bytes, at least 1 MiB.
func newRangeDeletes(to *maker, limit int64) *rangeDeletes {
	return &rangeDeletes{levels: levels{to: to}, limit: max(limit, 1<<20)}
}

// addCopy adds a copy of t.
func (d *rangeDeletes) addCopy(t rangedel.Tombstone) error {
	d.set = d.set.With(rangedel.Tombstone{Lo: bytes.Clone(t.Lo), Hi: bytes.Clone(t.Hi), Version: t.Version})
	if int64(d.set.Bytes()+d.set.Memory()) < d.limit {
		return nil
	}
	m, err := d.writeRun(d.set)
	if err != nil {
		return err
	}
	d.set = nil
	return d.push(0, m, d.joinRuns)
}

// joinRuns makes one run of several.
func (d *rangeDeletes) joinRuns(list []meta.Run) (m meta.Run, err error) {
	sources, err := d.tombstones(list)
	if err != nil {
		return m, err
	}
	return d.writeRun(sources...)
}

// writeRun writes a run of the newest range deletes of sources.
func (d *rangeDeletes) writeRun(sources ...rangedel.Source) (meta.Run, error) {
	cover := rangedel.NewForwardCover(entry.MaxVersion, sources...)
	defer cover.Close()
	return d.to.writeRun(func(w *run.Writer) error {
		return cover.Flatten([]byte{0}, nil, w.AddTombstone)
	})
}

// sources opens all that was added. It is valid until closeRuns.
func (d *rangeDeletes) sources() ([]rangedel.Source, error) {
	sources, err := d.tombstones(d.listRuns())
	return append(sources, d.set), err
}

// tombstones opens runs. They are valid until closeRuns.
func (d *rangeDeletes) tombstones(list []meta.Run) (sources []rangedel.Source, err error) {
	for _, m := range list {
		r, err := d.reader(m)
		if err != nil {
			return nil, err
		}
		sources = append(sources, r.Tombstones())
	}
	return sources, nil
}
