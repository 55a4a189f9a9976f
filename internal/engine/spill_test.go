package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/txn/commit"
	"github.com/brockdb/brock/vfs"
)

// A large transaction commits unless something that it has read was written, or deleted in a range,
// after the check that others need not wait for.
func TestSpillIsCheckedAgainstLateDeletes(t *testing.T) {
	for _, c := range []struct {
		what    string
		ops     []op
		flush   bool
		refused bool
	}{
		{"nothing", nil, false, false},
		{"other keys", []op{set("\x00a", nil), set("\x00k5x", nil)}, false, false},
		{"a key", []op{set("\x00k5", nil)}, false, true},
		{"a key in a range", []op{del("\x00r1x")}, false, true},
		{"ranges between", []op{delRange("\x00k1x", "\x00k2"), delRange("\x00k2x", "\x00k3"), delRange("\x00r2", "\x00s")}, false, false},
		{"a range over a key", []op{delRange("\x00a", "\x00b"), delRange("\x00k4x", "\x00k6"), delRange("\x00x", "\x00y")}, false, true},
		{"a range over the end of a range", []op{delRange("\x00r1x", "\x00s")}, false, true},
		{"a range within a range", []op{delRange("\x00r1a", "\x00r1b")}, true, true},
		{"a range in a run", []op{delRange("\x00k9", "\x00k91")}, true, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newStore(t, vfs.NewMem(), nil)
			defer s.close()
			s.must(s.commit(true, set("\x00z", nil)))
			pin, err := s.engine.Views.Acquire(0) // the transaction's
			s.must(err)
			defer pin.Release()
			reads := &commit.ReadSet{Seed: s.engine.cfg.Seed}
			for i := range 10 {
				k := fmt.Appendf(nil, "\x00k%d", i)
				reads.AddKey(k, checksum.HashKey(s.engine.cfg.Seed, k))
			}
			reads.AddRange([]byte("\x00r1"), []byte("\x00r2"))
			check := commit.Check{Isolation: commit.Serializable, Since: s.last, Reads: reads}
			spill := s.newSpill()
			defer spill.Discard()
			record := entry.AppendRecord(nil, &entry.Entry{Key: []byte("\x00w"), Value: []byte("2"), Kind: entry.Set}, false)
			s.flush()
			s.must(spill.Add(t.Context(), record, 0, nil))
			s.must(spill.Prepare(t.Context(), check))
			if c.ops != nil {
				s.must(s.commit(true, c.ops...))
			}
			if c.flush {
				s.flush()
			}
			err = spill.Commit(s.last+1, check)
			if refused := new(commit.Refusal); errors.As(err, &refused) != c.refused || !c.refused && err != nil {
				t.Errorf("refused %v: %v", c.refused, err)
			}
		})
	}
}

// Under SnapshotIsolation a large transaction commits unless a key that it writes, or one of a
// range that it deletes, was changed, before its Prepare or after.
func TestSpillIsCheckedAgainstOtherWrites(t *testing.T) {
	var much []op // more than what is written, so that each key written is looked up
	for i := range 30 {
		much = append(much, set(fmt.Sprintf("\x00m%d", i), nil))
	}
	for _, c := range []struct {
		what    string
		ops     []op
		refused bool
	}{
		{"nothing", nil, false},
		{"other keys", []op{set("\x00a", nil), set("\x00k5x", nil), del("\x00s")}, false},
		{"much else", much, false},
		{"a key", []op{set("\x00k5", nil)}, true},
		{"a key and much else", append(slices.Clone(much), set("\x00k5", nil)), true},
		{"a key in a range and much else", append(slices.Clone(much), set("\x00r1x", nil)), true},
		{"a deleted key", []op{del("\x00k5")}, true},
		{"a key in a range", []op{set("\x00r1x", nil)}, true},
		{"ranges between", []op{delRange("\x00k1x", "\x00k2"), delRange("\x00r2", "\x00s")}, false},
		{"a range over a key", []op{delRange("\x00k4x", "\x00k6")}, true},
		{"a range over a range", []op{delRange("\x00r1x", "\x00s")}, true},
	} {
		for _, late := range []bool{false, true} {
			for _, flush := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, late %v, flushed %v", c.what, late, flush), func(t *testing.T) {
					s := newStore(t, vfs.NewMem(), nil)
					defer s.close()
					s.must(s.commit(true, set("\x00z", nil)))
					pin, err := s.engine.Views.Acquire(0) // the transaction's
					s.must(err)
					defer pin.Release()
					check := commit.Check{Isolation: commit.SnapshotIsolation, Since: s.last}
					spill := s.newSpill()
					defer spill.Discard()
					var records []byte
					for i := range 20 {
						records = entry.AppendRecord(records, &entry.Entry{Key: fmt.Appendf(nil, "\x00k%d", i%10), Kind: entry.Set}, false)
					}
					records = entry.AppendRecord(records, &entry.Entry{Key: []byte("\x00r1"), Value: []byte("\x00r2"), Kind: entry.RangeDelete}, false)
					ranges := rangedel.New(rangedel.Delete{Lo: []byte("\x00r1"), Hi: []byte("\x00r2"), Version: 21})
					s.must(spill.Add(t.Context(), records, 0, ranges))
					others := func() {
						if c.ops != nil {
							s.must(s.commit(true, c.ops...))
						}
						if flush {
							s.flush()
						}
					}
					if !late {
						others()
					}
					s.flush() // or Prepare would wait for the task
					err = spill.Prepare(t.Context(), check)
					if err == nil && late {
						others()
					}
					if err == nil {
						err = spill.Commit(s.last+1, check)
					}
					if refused := new(commit.Refusal); errors.As(err, &refused) != c.refused || !c.refused && err != nil {
						t.Errorf("refused %v: %v", c.refused, err)
					}
				})
			}
		}
	}
}
