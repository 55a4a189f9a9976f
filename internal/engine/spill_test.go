package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/hash"
	"github.com/brockdb/brock/internal/txn/conflict"
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
			reads := &conflict.ReadSet{Seed: s.engine.cfg.Seed}
			for i := range 10 {
				k := fmt.Appendf(nil, "\x00k%d", i)
				reads.AddKey(k, hash.Sum(s.engine.cfg.Seed, k))
			}
			reads.AddRange([]byte("\x00r1"), []byte("\x00r2"))
			check := conflict.Check{Isolation: conflict.Serializable, Since: s.last, Reads: reads}
			spill := s.engine.Spills.New()
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
			if refused := new(conflict.Refusal); errors.As(err, &refused) != c.refused || !c.refused && err != nil {
				t.Errorf("refused %v: %v", c.refused, err)
			}
		})
	}
}
