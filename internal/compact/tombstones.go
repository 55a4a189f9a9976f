package compact

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/run/meta"
	"github.com/brockdb/brock/internal/tombstone"
)

// tombstoneWriter is a run.Writer to which all entries were added.
type tombstoneWriter interface {
	AddTombstone(t tombstone.Tombstone) error
	AddHistory(list []tombstone.Tombstone) error
}

// writeTombstones adds the tombstones that are still needed to w. Where all readers see several
// of them, the newest is enough. If that has nothing older left to hide, it stays only as long
// as the check of a commit may ask for it (Rules.Checked).
func (r *Rules) writeTombstones(w tombstoneWriter, a *meta.Account) error {
	for at := []byte{0}; ; {
		var err error
		if at, err = r.nextTombstone(at); at == nil || err != nil {
			return cmp.Or(err, r.writeHistory(w, a))
		}
		id, ok := entry.KeyspaceOf(at)
		var end []byte
		if ok {
			end = entry.AfterKeyspace(id)
		}
		if err := r.writeFlat(w, at, end, id, ok); err != nil {
			return err
		}
		at = end
	}
}

// nextTombstone returns the first key from at on that a tombstone covers; nil if there is none.
func (r *Rules) nextTombstone(at []byte) ([]byte, error) {
	all := tombstone.NewForwardCover(entry.MaxVersion, r.Tombstones...)
	defer all.Close()
	for all != nil && at != nil {
		if all.Newest(at) > 0 {
			return at, all.Err()
		}
		_, next := all.Stretch()
		at = bytes.Clone(next)
	}
	return nil, nil
}

// writeFlat writes what all readers of a keyspace see of its tombstones in [lo, hi).
func (r *Rules) writeFlat(w tombstoneWriter, lo, hi []byte, id entry.KeyspaceID, known bool) error {
	if known && r.Dropped != nil && r.Dropped(id) {
		return nil
	}
	cover := tombstone.NewForwardCover(r.Of(id).Watermark, r.Tombstones...)
	defer cover.Close()
	return cover.Flatten(lo, hi, func(t tombstone.Tombstone) error {
		if t.Version <= r.Checked && !r.hidesOlder(t) {
			return nil
		}
		return w.AddTombstone(t)
	})
}

// hidesOlder reports whether older runs may have entries that t deletes.
func (r *Rules) hidesOlder(t tombstone.Tombstone) bool {
	if r.Bottom || len(r.Older) == 0 {
		return !r.Bottom
	}
	return slices.ContainsFunc(r.Older, func(o *meta.Run) bool {
		return bytes.Compare(o.First, t.Hi) < 0 && bytes.Compare(t.Lo, o.Last) <= 0
	})
}

// writeHistory adds the tombstones that are newer than the watermark, so that some readers don't
// see them.
func (r *Rules) writeHistory(w tombstoneWriter, a *meta.Account) error {
	least := r.Watermark
	for _, h := range r.Keyspaces {
		least = min(least, h.Watermark)
	}
	var history []tombstone.Tombstone
	var kept keeper
	for _, s := range r.Tombstones {
		err := s.Since(least, func(t tombstone.Tombstone) error {
			id, ok := entry.KeyspaceOf(t.Lo)
			if t.Version > r.Of(id).Watermark && !(ok && r.Dropped != nil && r.Dropped(id)) {
				if r.Bottom && t.Version > r.Checked {
					a.Add(meta.Superseded{Keyspace: id, Version: t.Version, Entries: 1, Bytes: uint64(len(t.Lo) + len(t.Hi))})
				}
				history = append(history, tombstone.Tombstone{Lo: kept.keep(t.Lo), Hi: kept.keep(t.Hi), Version: t.Version})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(history, tombstone.Compare)
	history = slices.CompactFunc(history, func(a, b tombstone.Tombstone) bool { return tombstone.Compare(a, b) == 0 })
	return w.AddHistory(history)
}

// WriteRanges adds what ranges cover to w, by tombstones of version 0: the version of the run is
// not known yet.
func WriteRanges(w tombstoneWriter, ranges ...tombstone.Source) error {
	cover := tombstone.NewForwardCover(entry.MaxVersion, ranges...)
	defer cover.Close()
	return cover.EachRange([]byte{0}, func(lo, hi []byte) error {
		return w.AddTombstone(tombstone.Tombstone{Lo: lo, Hi: hi})
	})
}

// keeper keeps copies of keys, many in one block of memory.
type keeper struct{ room []byte }

const keeperBlock = 64 << 10

func (k *keeper) keep(key []byte) []byte {
	if len(key) > cap(k.room)-len(k.room) {
		k.room = make([]byte, 0, max(keeperBlock, len(key)))
	}
	from := len(k.room)
	k.room = append(k.room, key...)
	return k.room[from:len(k.room):len(k.room)]
}
