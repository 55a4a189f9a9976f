// Package model says what a store must answer. It keeps every version of every key
// in memory, in the plainest way, without regard to speed. Tests do the same to it
// and to the store, and compare. It uses nothing of Brock, so that it can't repeat
// a mistake of Brock's.
package model

import (
	"maps"
	"slices"
	"strings"
)

// Entry is one version of one key.
type Entry struct {
	Key     string
	Value   string
	Version uint64
	Expires uint64 // Unix milliseconds from when it's invisible; 0 = never
	Meta    byte
	Deleted bool
	Ranged  bool // Deleted by a range delete
	Latest  bool // versions before it may be dropped at once
}

// Visible reports whether a reader at the time now (Unix milliseconds) finds a
// value in e.
func (e Entry) Visible(now uint64) bool {
	return !e.Deleted && (e.Expires == 0 || e.Expires > now)
}

// Write is one write of a commit. It sets Key to Value, deletes Key, or deletes all
// keys of Range.
type Write struct {
	Range   *Range // nil: the write is of Key
	Key     string
	Value   string
	Expires uint64 // as in Entry
	Meta    byte
	Delete  bool
	Latest  bool // as in Entry
}

// Keys returns the range of the keys that w writes.
func (w Write) Keys() Range {
	if w.Range != nil {
		return *w.Range
	}
	return Key(w.Key)
}

// Store holds everything that was ever committed. One goroutine at a time may use
// it. The zero Store is empty.
type Store struct {
	versions map[string][]Entry // oldest first, one for each version
	sorted   []string           // the keys of versions in order
	deletes  []rangeDelete
	last     uint64
}

// rangeDelete deletes the versions of a range of keys before its own version.
type rangeDelete struct {
	Range
	version uint64
}

// Last returns the greatest version; 0 if nothing was committed.
func (s *Store) Last() uint64 { return s.last }

// Commit applies the writes together and returns their version, which is one
// more than the last. Of several writes to a key the last one counts.
func (s *Store) Commit(writes ...Write) uint64 {
	s.CommitAt(s.last+1, writes...)
	return s.last
}

// CommitAt applies the writes as the given version, which may be an old one. It
// replaces what the keys have at that version.
func (s *Store) CommitAt(version uint64, writes ...Write) {
	s.last = max(s.last, version)
	for _, w := range writes {
		if w.Range != nil {
			s.deleteRange(*w.Range, version)
			continue
		}
		s.put(Entry{
			Key: w.Key, Value: w.Value, Version: version, Expires: w.Expires, Meta: w.Meta,
			Deleted: w.Delete, Latest: w.Latest,
		})
	}
}

// deleteRange deletes what the keys of r have before the version, and at it.
func (s *Store) deleteRange(r Range, version uint64) {
	for key, list := range s.versions {
		if r.Contains(key) {
			s.versions[key] = slices.DeleteFunc(slices.Clone(list), func(e Entry) bool { return e.Version == version })
		}
	}
	s.deletes = append(s.deletes, rangeDelete{r, version})
}

func (s *Store) put(e Entry) {
	if s.versions == nil {
		s.versions = map[string][]Entry{}
	}
	list, known := s.versions[e.Key]
	if !known {
		at, _ := slices.BinarySearch(s.sorted, e.Key)
		s.sorted = slices.Insert(s.sorted, at, e.Key)
	}
	at, found := slices.BinarySearchFunc(list, e.Version, compareVersion)
	if found {
		list[at] = e
	} else {
		list = slices.Insert(list, at, e)
	}
	s.versions[e.Key] = list
}

func compareVersion(e Entry, version uint64) int {
	switch {
	case e.Version < version:
		return -1
	case e.Version > version:
		return 1
	}
	return 0
}

// Forget drops every version after the given one, as a crash drops commits that
// were not durable. The next commit is version+1.
func (s *Store) Forget(version uint64) {
	for key, list := range s.versions {
		at, _ := slices.BinarySearchFunc(list, version+1, compareVersion)
		if at == 0 {
			delete(s.versions, key)
		} else {
			s.versions[key] = slices.Clip(list[:at])
		}
	}
	s.sorted = slices.Sorted(maps.Keys(s.versions))
	s.deletes = slices.DeleteFunc(s.deletes, func(d rangeDelete) bool { return d.version > version })
	s.last = min(s.last, version)
}

// Clone returns an independent copy.
func (s *Store) Clone() *Store {
	c := &Store{versions: make(map[string][]Entry, len(s.versions)), sorted: slices.Clone(s.sorted), deletes: slices.Clone(s.deletes), last: s.last}
	for key, list := range s.versions {
		c.versions[key] = slices.Clone(list)
	}
	return c
}

// Newest returns the newest version of key that is not after at: a value, an expired
// value or a delete.
func (s *Store) Newest(key string, at uint64) (Entry, bool) {
	if list := s.Versions(key, at); len(list) > 0 {
		return list[0], true
	}
	return Entry{}, false
}

// Get returns what a reader of version at finds under key at the time now.
func (s *Store) Get(key string, at, now uint64) (Entry, bool) {
	e, found := s.Newest(key, at)
	if !found || !e.Visible(now) {
		return Entry{}, false
	}
	return e, true
}

// Versions returns all versions of key that are not after at, newest first, with
// deletes and expired ones. A range delete counts as a delete of the key if it hides
// a version that no newer range delete hides.
func (s *Store) Versions(key string, at uint64) []Entry {
	var list []Entry
	for _, e := range slices.Backward(s.versions[key]) {
		if e.Version > at {
			continue
		}
		above := at + 1 // the newer version before e
		if len(list) > 0 {
			above = list[len(list)-1].Version
		}
		if v := s.rangeDeleted(key, e.Version, above); v > 0 {
			list = append(list, Entry{Key: key, Version: v, Deleted: true, Ranged: true})
		}
		list = append(list, e)
	}
	return list
}

// rangeDeleted returns the version of the newest range delete of key between two
// versions; 0 if there is none.
func (s *Store) rangeDeleted(key string, after, before uint64) (v uint64) {
	for _, d := range s.deletes {
		if d.version > after && d.version < before && d.Contains(key) {
			v = max(v, d.version)
		}
	}
	return v
}

// RangeDeletedAt reports whether the commit of a version deleted a range with key. The
// commit may have set key again.
func (s *Store) RangeDeletedAt(key string, version uint64) bool {
	return s.rangeDeleted(key, version-1, version+1) == version
}

// ChangedSince reports whether a key in the range has a version after since, or a
// range delete after since meets the range.
func (s *Store) ChangedSince(r Range, since uint64) bool {
	if slices.ContainsFunc(s.deletes, func(d rangeDelete) bool { return d.version > since && d.meets(r) }) {
		return true
	}
	for _, key := range s.sorted {
		if !r.Contains(key) {
			continue
		}
		if list := s.versions[key]; len(list) > 0 && list[len(list)-1].Version > since {
			return true
		}
	}
	return false
}

// Range is the keys Lower <= key < Upper.
type Range struct {
	Lower, Upper string // Upper "" = no bound
}

// All is the range of every key.
var All = Range{}

// Prefix returns the range of the keys that begin with p.
func Prefix(p string) Range {
	for end := len(p); end > 0; end-- {
		if last := p[end-1]; last < 0xff {
			return Range{Lower: p, Upper: p[:end-1] + string([]byte{last + 1})}
		}
	}
	return Range{Lower: p}
}

// Key returns the range of one key.
func Key(key string) Range { return Range{Lower: key, Upper: key + "\x00"} }

// Contains reports whether key lies in the range.
func (r Range) Contains(key string) bool {
	return strings.Compare(key, r.Lower) >= 0 && (r.Upper == "" || strings.Compare(key, r.Upper) < 0)
}

// meets reports whether some key could lie in both ranges.
func (r Range) meets(o Range) bool {
	return !r.Empty() && !o.Empty() && (r.Upper == "" || o.Lower < r.Upper) && (o.Upper == "" || r.Lower < o.Upper)
}

// Empty reports whether no key can lie in the range.
func (r Range) Empty() bool { return r.Upper != "" && r.Lower >= r.Upper }
