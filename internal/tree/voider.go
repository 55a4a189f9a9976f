package tree

import (
	"bytes"
	"slices"
	"sort"

	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/hash"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/pageio"
	"github.com/brockdb/brock/internal/tombstone"
	"github.com/brockdb/brock/internal/view"
)

// mapped is the file that a memory fault is blamed on where nothing below
// knows better.
const mapped = "a mapped file"

// voider walks the deletes of a memtable, or of a transaction, and, beside them, the
// keys below. It looks at no more keys than are deleted, and some of those between.
// With seeds, it looks only around deletes that came lately.
type voider struct {
	least int
	seed  uint64
	mine  iterator.Iterator // of what deletes
	table *view.Table       // that it walks; nil = a transaction's writes
	upTo  entry.Version

	seedEvery int
	seeds     [][]byte              // of the late deletes some, in order of keys; nil = walk all
	since     entry.Version         // late ones are not older
	known     []tombstone.Tombstone // voids that hold up to upTo, in order
	resumed   int                   // so many of them were gone on from

	found  []tombstone.Tombstone
	hidden int64 // keys that were not, before

	older iterator.Iterator
	cover *tombstone.Cover // of what older walks
	at    bool             // older is at an entry

	lo, hi  []byte // the first and last key of the row of deletes
	version entry.Version
	keys    int
	goesOn  bool   // the row begins with the end of a known void
	passed  []byte // scratch: a key that a walk leaves
}

func (v *voider) find(below *view.View) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, mapped)
	v.older, v.cover = below.Iterator(), below.Cover(entry.MaxVersion-1, true)
	defer v.mine.Close()
	defer v.older.Close()
	if v.seeds == nil {
		v.walk(v.mine.First())
	}
	for seeds := v.seeds; len(seeds) > 0; {
		before := v.hidden
		ok := v.resume(seeds)
		if ok && bytes.Compare(v.mine.Entry().Key, seeds[0]) <= 0 {
			ok = v.walk(v.mine.SeekGE(seeds[0]))
		}
		if !ok {
			break
		}
		seeds = seeds[1:]
		at := v.mine.Entry().Key
		seeds = seeds[sort.Search(len(seeds), func(i int) bool { return bytes.Compare(seeds[i], at) >= 0 }):]
		if v.hidden == before {
			// Where something is alive between deletes, there will be more of it.
			seeds = seeds[min(4, len(seeds)):]
		}
	}
	if err := v.older.Err(); err != nil {
		return err
	}
	return v.mine.Err()
}

// resume walks on from the end of the known void before, or around, the first seed;
// it reports whether mine is at an entry then. Without such a void, or a second time,
// it only moves there.
func (v *voider) resume(seeds [][]byte) bool {
	key := seeds[0]
	i := sort.Search(len(v.known), func(i int) bool { return bytes.Compare(v.known[i].Lo, key) > 0 }) - 1
	if i < v.resumed {
		return v.mine.SeekGE(key)
	}
	v.resumed = i + 1
	inside := sort.Search(len(seeds), func(j int) bool { return bytes.Compare(seeds[j], v.known[i].Hi) >= 0 })
	v.hidden += int64(inside * v.seedEvery)
	last, ok := bytes.CutSuffix(v.known[i].Hi, []byte{0})
	if !ok { // it ends before something that came later
		return v.mine.SeekGE(slices.MaxFunc([][]byte{key, v.known[i].Hi}, bytes.Compare))
	}
	v.lo, v.hi = append(v.lo[:0], last...), append(v.hi[:0], last...)
	v.version, v.keys, v.goesOn = v.known[i].Version-1, 0, true
	v.at = v.older.SeekGE(last)
	return v.walk(v.mine.SeekGE(v.known[i].Hi))
}

// walk goes on while there are rows of deletes to be found; it reports whether mine
// is still at an entry.
func (v *voider) walk(ok bool) bool {
	defer v.end()
	credit := v.least // of entries that are not late: none may be left of a row
	for ok {
		e := v.mine.Entry()
		if e.Version >= v.since {
			credit = min(credit+4, v.least)
		} else if credit--; credit < 0 {
			return true
		}
		switch {
		case e.Kind != entry.Delete || e.Version > v.upTo:
			v.end()
		case v.keys == 0 && !v.goesOn:
			v.begin(e)
		case !v.alive(e.Key):
			v.keys++
			v.hi, v.version = append(v.hi[:0], e.Key...), max(v.version, e.Version)
		case v.goesOn || v.keys >= v.least:
			v.end()
			v.begin(e)
		case v.seeds != nil:
			return true
		default:
			// Where something is alive between deletes, there will be more of it.
			v.end()
			ok = v.skip(v.least / 2)
			continue
		}
		ok = v.nextKey(e.Key)
	}
	return false
}

// begin begins a row with a delete.
func (v *voider) begin(e *entry.Entry) {
	v.lo, v.hi = append(v.lo[:0], e.Key...), append(v.hi[:0], e.Key...)
	v.version, v.keys = e.Version, 1
	v.at = v.older.SeekGE(e.Key)
}

// end makes a void of the row, if it is long enough: up to just behind its last key.
func (v *voider) end() {
	if v.keys >= v.least || v.goesOn && v.keys > 0 {
		if d := tombstone.Emptied(bytes.Clone(v.lo), append(bytes.Clone(v.hi), 0), v.version); d.Valid() {
			v.found = append(v.found, d)
			v.hidden += int64(v.keys)
		}
	}
	v.keys, v.goesOn = 0, false
}

// skip moves mine over n entries and to the newest one of a key.
func (v *voider) skip(n int) bool {
	for range n {
		if !v.mine.Next() {
			return false
		}
	}
	if e := v.mine.Entry(); !v.newest(e) {
		return v.nextKey(e.Key)
	}
	return true
}

// nextKey moves mine to the newest entry of the next key.
func (v *voider) nextKey(key []byte) bool {
	v.passed = append(v.passed[:0], key...)
	for v.mine.Next() {
		if !bytes.Equal(v.mine.Entry().Key, v.passed) {
			return true
		}
	}
	return false
}

// newest reports whether e surely is the newest entry of its key.
func (v *voider) newest(e *entry.Entry) bool {
	if v.table == nil {
		return false
	}
	newest, found := v.table.Newest(e.Key, hash.Sum(v.seed, e.Key))
	return found && newest == e.Version
}

// alive reports whether there is something below between the last key of the row
// and the next one. It leaves older behind the last key.
func (v *voider) alive(next []byte) bool {
	for hidden := 0; v.at && bytes.Compare(v.older.Entry().Key, next) < 0; {
		e := v.older.Entry()
		if bytes.Compare(e.Key, v.hi) > 0 {
			if v.cover != nil && v.cover.Newest(e.Key) > e.Version {
				if hidden++; hidden > mostHidden {
					v.at = v.skipHidden(e)
					continue
				}
			} else if e.Kind != entry.Delete {
				return true
			}
		}
		v.at = v.skipVersions(e.Key)
	}
	return false
}

// mostHidden is how many hidden keys are walked before a seek past the rest.
const mostHidden = 4

// skipHidden moves older past what hides e, its entry, too.
func (v *voider) skipHidden(e *entry.Entry) bool {
	newest := v.cover.Newest(e.Key)
	if _, end := v.cover.Stretch(); end != nil {
		return v.older.SkipGE(end, newest)
	}
	return v.older.Next()
}

// skipVersions moves older to the next key.
func (v *voider) skipVersions(key []byte) bool {
	v.passed = append(v.passed[:0], key...)
	for v.older.Next() {
		if !bytes.Equal(v.older.Entry().Key, v.passed) {
			return true
		}
	}
	return false
}
