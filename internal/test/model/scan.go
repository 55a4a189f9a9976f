package model

import (
	"iter"
	"slices"
)

// Scan says what to walk over. The zero Scan walks all visible values in key order.
type Scan struct {
	Range
	Reverse     bool   // from the greatest key down
	AllVersions bool   // all versions with deletes and expired ones, newest first; in reverse, oldest first
	Since       uint64 // only versions after this one
	Limit       int    // number of entries after which the walk ends; 0 = no limit
}

// Scan walks over what a reader of version at sees at the time now. The store
// must not change meanwhile.
func (s *Store) Scan(o Scan, at, now uint64) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		left := o.Limit
		for e := range s.entries(o, at, now) {
			if !yield(e) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// entries is Scan without its limit.
func (s *Store) entries(o Scan, at, now uint64) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, key := range inOrder(s.sorted, o.Reverse) {
			if !o.Contains(key) {
				continue
			}
			for _, e := range s.seen(key, o, at, now) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// seen returns what the scan shows of one key.
func (s *Store) seen(key string, o Scan, at, now uint64) []Entry {
	if !o.AllVersions {
		if e, found := s.Get(key, at, now); found && e.Version > o.Since {
			return []Entry{e}
		}
		return nil
	}
	list := slices.DeleteFunc(s.Versions(key, at), func(e Entry) bool { return e.Version <= o.Since })
	if o.Reverse {
		slices.Reverse(list)
	}
	return list
}

func inOrder(keys []string, reverse bool) iter.Seq2[int, string] {
	if reverse {
		return slices.Backward(keys)
	}
	return slices.All(keys)
}
