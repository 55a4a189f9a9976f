package salvage

import (
	"bytes"
	"errors"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/run"
	"github.com/brockdb/brock/internal/run/meta"
	"github.com/brockdb/brock/internal/tombstone"
)

// rangeDeletes collects range deletes in bounded memory. What exceeds it goes to runs in the
// target's directory, which have the newest range delete at each place only: older ones delete
// nothing more, as the new store has one version of each key.
type rangeDeletes struct {
	to    *maker
	limit int64
	set   *tombstone.Set
	runs  []meta.Run
	open  []*run.Reader
}

func newRangeDeletes(to *maker, limit int64) *rangeDeletes {
	return &rangeDeletes{to: to, limit: max(limit, 1<<20)}
}

// add adds a copy of t.
func (d *rangeDeletes) add(t tombstone.Tombstone) error {
	d.set = d.set.With(tombstone.Tombstone{Lo: bytes.Clone(t.Lo), Hi: bytes.Clone(t.Hi), Version: t.Version})
	if int64(d.set.Bytes()+d.set.Memory()) < d.limit {
		return nil
	}
	if err := d.write(d.set); err != nil {
		return err
	}
	d.set = nil
	if len(d.runs) < fanIn {
		return nil
	}
	return d.compact()
}

// compact makes one run of all.
func (d *rangeDeletes) compact() error {
	sources, err := d.sources()
	if err != nil {
		return err
	}
	old := d.runs
	d.runs = nil
	err = d.write(sources...)
	d.close()
	return errors.Join(err, d.to.removeRuns(old))
}

// write writes a run of the newest range deletes of sources.
func (d *rangeDeletes) write(sources ...tombstone.Source) error {
	cover := tombstone.NewForwardCover(entry.MaxVersion, sources...)
	defer cover.Close()
	m, err := d.to.writeRun(func(w *run.Writer) error {
		return cover.Flatten([]byte{0}, nil, w.AddTombstone)
	})
	if err == nil {
		d.runs = append(d.runs, m)
	}
	return err
}

// sources opens all that was added. It is valid until close.
func (d *rangeDeletes) sources() ([]tombstone.Source, error) {
	all := []tombstone.Source{d.set}
	for _, m := range d.runs {
		r, err := d.to.openRun(m)
		if err != nil {
			return nil, err
		}
		d.open = append(d.open, r)
		all = append(all, r.Tombstones())
	}
	return all, nil
}

func (d *rangeDeletes) close() {
	for _, r := range d.open {
		_ = r.Close()
	}
	d.open = nil
}

// remove removes the runs.
func (d *rangeDeletes) remove() error {
	d.close()
	return d.to.removeRuns(d.runs)
}
