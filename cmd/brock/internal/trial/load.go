package trial

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

// loaded is the result of the step of loading.
type loaded struct {
	Pairs    int           `json:"pairs"`
	Bytes    int64         `json:"bytes"`
	Smallest int           `json:"smallestValue"`
	Largest  int           `json:"largestValue"`
	Took     time.Duration `json:"nanoseconds"` // until all was synced
	WriteAmp float64       `json:"writeAmplification"`
}

func (l loaded) String() string {
	return fmt.Sprintf("%s pairs, %s, values from %s to %s:%s%s, %s; write amplification %.2f",
		human.Count(int64(l.Pairs)), human.Bytes(l.Bytes), human.Bytes(int64(l.Smallest)), human.Bytes(int64(l.Largest)), indent,
		human.ByteRate(l.Bytes, l.Took), human.Rate(int64(l.Pairs), "pairs", l.Took), l.WriteAmp)
}

// load writes the source into a new store, and notes what the pairs are.
func (t *trial) load() (_ fmt.Stringer, err error) {
	if t.db, err = brock.OpenContext(t.ctx, brock.Options{Dir: t.Dir, MustBeNew: true}); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := t.copySource(); err != nil {
		return nil, err
	}
	took := time.Since(begin)
	t.sortRecords()
	l := loaded{Took: took, Pairs: len(t.records), Bytes: t.bytes}
	if len(t.records) == 0 {
		return nil, fmt.Errorf("%w: there is nothing in it", pairs.ErrInput)
	}
	l.Smallest = t.records[0].size
	for _, r := range t.records {
		l.Smallest, l.Largest = min(l.Smallest, r.size), max(l.Largest, r.size)
	}
	if err := t.db.Flush(t.ctx); err != nil {
		return nil, err
	}
	m := t.db.Metrics().Tree
	l.WriteAmp = float64(m.JournalBytes+m.FlushedBytes+m.CompactedBytes) / float64(max(l.Bytes, 1))
	return l, nil
}

func (t *trial) copySource() error {
	w := t.db.NewWriter(t.ctx)
	work := t.Progress.Start("load", t.Source.Bytes())
	defer work.End()
	err := t.Source.Each(func(p pairs.Pair, at pairs.Place) error {
		if strings.HasPrefix(string(p.Key), reserved) {
			return at.Refuse(fmt.Sprintf("the key begins with %q, which the trial needs for itself", reserved))
		}
		if p.Section != nil {
			return at.Refuse("a dump of many keyspaces; try takes pairs of one (brock dump --keyspace)")
		}
		t.records = append(t.records, record{key: p.Key, at: at, size: len(p.Value), hash: maphash.Bytes(t.hash, p.Value)})
		work.Add(at.Size)
		err := w.SetEntry(p.Entry())
		if errors.Is(err, brock.ErrInvalid) { // as for a key that is too large
			return at.Refuse(strings.TrimPrefix(err.Error(), "brock: "))
		}
		return err
	})
	return errors.Join(err, w.Close())
}

// sortRecords sorts what was loaded by its keys. Of two records of a key the last one counts.
func (t *trial) sortRecords() {
	slices.SortFunc(t.records, func(a, b record) int {
		return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(b.at.Offset, a.at.Offset))
	})
	t.records = slices.CompactFunc(t.records, func(a, b record) bool { return bytes.Equal(a.key, b.key) })
	for i := range t.records {
		t.bytes += int64(len(t.records[i].key) + t.records[i].size)
	}
}
