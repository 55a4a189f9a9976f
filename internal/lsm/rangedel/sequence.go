package rangedel

import (
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
)

// Sequence walks range deletes in the order of Compare. It is used by one goroutine.
type Sequence interface {
	// Next returns the next one; false at the end, and after an error. Its bounds are valid until
	// Next is called again.
	Next() (t Delete, ok bool, err error)
}

// Ordered walks the range deletes that are newer than v. It keeps their list in memory, 56 bytes
// each.
func (s *Set) Ordered(v entry.Version) Sequence {
	var list sequence
	_ = s.Since(v, func(t Delete) error {
		list = append(list, t)
		return nil
	})
	slices.SortFunc(list, Compare)
	return &list
}

// sequence is a sorted list.
type sequence []Delete

// Next is the method of a Sequence.
func (s *sequence) Next() (t Delete, ok bool, err error) {
	if len(*s) == 0 {
		return t, false, nil
	}
	t, *s = (*s)[0], (*s)[1:]
	return t, true, nil
}

// MergeSequences calls fn for the range deletes of all sequences in the order of Compare, those
// that are equal as often as they come. It stops at the first error. The bounds are valid until fn
// returns.
func MergeSequences(from []Sequence, fn func(Delete) error) error {
	type head struct {
		Delete
		of Sequence
	}
	var heads []head
	for next := slices.Clone(from); ; {
		for _, s := range next {
			t, ok, err := s.Next()
			if err != nil {
				return err
			}
			if ok {
				heads = append(heads, head{t, s})
			}
		}
		if len(heads) == 0 {
			return nil
		}
		least := 0 // compactions have few inputs: a tree of heads would gain nothing
		for i := range heads {
			if Compare(heads[i].Delete, heads[least].Delete) < 0 {
				least = i
			}
		}
		if err := fn(heads[least].Delete); err != nil {
			return err
		}
		// Its bounds are not needed any more, so its sequence may move on.
		next = append(next[:0], heads[least].of)
		heads = slices.Delete(heads, least, least+1)
	}
}
