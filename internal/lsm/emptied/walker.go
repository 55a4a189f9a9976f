package emptied

import (
	"bytes"
	"slices"
	"sort"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/hash"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/memtable"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// walker walks the deletes of a memtable, or of a transaction, and beside them what is
// older. A row is deletes of keys between which nothing older is alive; a row that is
// long enough is an emptied range. The walker meets no more keys than are deleted, and
// some of those between. With seeds, it walks only around deletes that came lately.
type walker struct {
	least int    // least keys of a row that becomes a range
	seed  uint64 // of the key hash
	mine  iterator.Iterator
	table *memtable.Table // that mine walks; nil = a transaction's writes
	upTo  entry.Version   // entries of mine that are newer count as alive

	seeds     [][]byte      // some late deletes, in order of keys; nil = walk all
	seedEvery int           // late deletes for each seed
	since     entry.Version // a delete is late if it has this version or a newer one
	known     []Range       // that hold up to upTo, in order
	resumed   int           // number of known ranges from whose end the walk went on

	found  []Range
	hidden int64 // keys in found that were not in known

	older iterator.Iterator
	cover *rangedel.Cover // what hides entries of older
	at    bool            // older is at an entry

	lo, hi  []byte // first and last key of the row
	version entry.Version
	keys    int    // of the row
	goesOn  bool   // the row begins with the end of a known range
	passed  []byte // scratch: the key that a walk moves away from
}

// find walks mine beside older, and closes both.
func (w *walker) find(older iterator.Iterator, cover *rangedel.Cover) (err error) {
	defer pageio.Guard(pageio.Arm(), &err, "a mapped file")
	w.older, w.cover = older, cover
	defer w.mine.Close()
	defer w.older.Close()
	if w.seeds == nil {
		w.walk(w.mine.First())
	}
	for seeds := w.seeds; len(seeds) > 0; {
		before := w.hidden
		ok := w.resume(seeds)
		if ok && bytes.Compare(w.mine.Entry().Key, seeds[0]) <= 0 {
			ok = w.walk(w.mine.SeekGE(seeds[0]))
		}
		if !ok {
			break
		}
		seeds = seeds[1:]
		at := w.mine.Entry().Key
		seeds = seeds[sort.Search(len(seeds), func(i int) bool { return bytes.Compare(seeds[i], at) >= 0 }):]
		if w.hidden == before {
			// Where something is alive between deletes, there will be more of it.
			seeds = seeds[min(4, len(seeds)):]
		}
	}
	if err := w.older.Err(); err != nil {
		return err
	}
	if w.cover != nil && w.cover.Err() != nil {
		return w.cover.Err()
	}
	return w.mine.Err()
}

// resume walks on from the end of the known range before, or around, the first seed,
// and reports whether mine is at an entry then. It does so once for each known range;
// else it only moves mine to the seed.
func (w *walker) resume(seeds [][]byte) bool {
	key := seeds[0]
	i := sort.Search(len(w.known), func(i int) bool { return bytes.Compare(w.known[i].Lo, key) > 0 }) - 1
	if i < w.resumed {
		return w.mine.SeekGE(key)
	}
	w.resumed = i + 1
	end := w.known[i].Hi
	inside := sort.Search(len(seeds), func(j int) bool { return bytes.Compare(seeds[j], end) >= 0 })
	w.hidden += int64(inside * w.seedEvery)
	last, ok := bytes.CutSuffix(end, []byte{0})
	if !ok { // it ends before a key that was set later
		return w.mine.SeekGE(slices.MaxFunc([][]byte{key, end}, bytes.Compare))
	}
	w.lo, w.hi = append(w.lo[:0], last...), append(w.hi[:0], last...)
	w.version, w.keys, w.goesOn = w.known[i].Version-1, 0, true
	w.at = w.older.SeekGE(last)
	return w.walk(w.mine.SeekGE(end))
}

// walk finds row after row from the entry that mine is at, until it is not among late
// deletes any more. It reports whether mine is still at an entry.
func (w *walker) walk(ok bool) bool {
	defer w.end()
	credit := w.least // entries that are not late which may still be met
	for ok {
		e := w.mine.Entry()
		if e.Version >= w.since {
			credit = min(credit+4, w.least)
		} else if credit--; credit < 0 {
			return true
		}
		switch {
		case e.Kind != entry.Delete || e.Version > w.upTo:
			w.end()
		case w.keys == 0 && !w.goesOn:
			w.begin(e)
		case !w.alive(e.Key):
			w.keys++
			w.hi, w.version = append(w.hi[:0], e.Key...), max(w.version, e.Version)
		case w.goesOn || w.keys >= w.least:
			w.end()
			w.begin(e)
		case w.seeds != nil:
			return true
		default:
			// Where something is alive between deletes, there will be more of it.
			w.end()
			ok = w.skip(w.least / 2)
			continue
		}
		ok = w.nextKey(w.mine, e.Key)
	}
	return false
}

// begin begins a row with a delete.
func (w *walker) begin(e *entry.Entry) {
	w.lo, w.hi = append(w.lo[:0], e.Key...), append(w.hi[:0], e.Key...)
	w.version, w.keys = e.Version, 1
	w.at = w.older.SeekGE(e.Key)
}

// end makes a range of the row if it is long enough: up to just behind its last key.
func (w *walker) end() {
	if w.keys >= w.least || w.goesOn && w.keys > 0 {
		// Unlike a range delete, the range may lie in several keyspaces: it comes to no file.
		if len(w.hi) < entry.MaxKey {
			w.found = append(w.found, rangedel.Emptied(bytes.Clone(w.lo), append(bytes.Clone(w.hi), 0), w.version))
			w.hidden += int64(w.keys)
		}
	}
	w.keys, w.goesOn = 0, false
}

// skip moves mine over n entries and to the newest one of a key.
func (w *walker) skip(n int) bool {
	for range n {
		if !w.mine.Next() {
			return false
		}
	}
	if e := w.mine.Entry(); !w.newest(e) {
		return w.nextKey(w.mine, e.Key)
	}
	return true
}

// newest reports whether e surely is the newest entry of its key.
func (w *walker) newest(e *entry.Entry) bool {
	if w.table == nil {
		return false
	}
	newest, found := w.table.Newest(e.Key, hash.Sum(w.seed, e.Key))
	return found && newest == e.Version
}

// nextKey moves an iterator to the newest entry of the key after this one.
func (w *walker) nextKey(it iterator.Iterator, key []byte) bool {
	w.passed = append(w.passed[:0], key...)
	for it.Next() {
		if !bytes.Equal(it.Entry().Key, w.passed) {
			return true
		}
	}
	return false
}

// mostHidden is how many hidden keys are walked before a seek past the rest.
const mostHidden = 4

// alive reports whether there is something older between the last key of the row and
// the next one. It leaves older behind the last key.
func (w *walker) alive(next []byte) bool {
	for hidden := 0; w.at && bytes.Compare(w.older.Entry().Key, next) < 0; {
		e := w.older.Entry()
		if bytes.Compare(e.Key, w.hi) > 0 {
			if w.cover != nil && w.cover.Newest(e.Key) > e.Version {
				if hidden++; hidden > mostHidden {
					w.at = w.skipHidden(e)
					continue
				}
			} else if e.Kind != entry.Delete {
				return true
			}
		}
		w.at = w.nextKey(w.older, e.Key)
	}
	return false
}

// skipHidden moves older past e and past what else the same tombstone hides.
func (w *walker) skipHidden(e *entry.Entry) bool {
	newest := w.cover.Newest(e.Key)
	if _, end := w.cover.Stretch(); end != nil {
		return w.older.SkipGE(end, newest)
	}
	return w.older.Next()
}
