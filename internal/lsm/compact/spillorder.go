package compact

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
)

// place is one of several records.
type place struct {
	word uint64 // 8 bytes of its key after what all keys share
	at   int    // where it begins
}

// estimate is about how many bytes a small record takes. It sizes the first list.
const estimate = 48

// newestByKey returns where the newest record of each key begins, in the order of keys, without
// those that a later range delete covers. Records and range deletes of a transaction are numbered
// together; last is the number of the last record.
func newestByKey(records []byte, last int, cover *rangedel.Cover) []int {
	places := make([]place, 0, len(records)/estimate)
	first := recordKey(records)
	shared := len(first)
	for at, size := 0, 0; at < len(records); at += size {
		size, _ = entry.RawSize(records[at:])
		shared = min(shared, entry.CommonPrefix(first[:shared], recordKey(records[at:])))
		places = append(places, place{at: at})
	}
	if cover != nil {
		places = uncoveredPlaces(records, places, last, cover)
	}
	// Most comparisons end with one word: the eight bytes behind the shared prefix.
	for i := range places {
		places[i].word = entry.Word(recordKey(records[places[i].at:])[shared:])
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.word != b.word {
			return cmp.Compare(a.word, b.word)
		}
		// Of one key, the record that was added last comes first.
		return cmp.Or(bytes.Compare(recordKey(records[a.at:]), recordKey(records[b.at:])), b.at-a.at)
	})
	sorted := make([]int, 0, len(places))
	for i, p := range places {
		// The newest record of a key came first: the others are overwritten.
		if i > 0 && p.word == places[i-1].word && bytes.Equal(recordKey(records[p.at:]), recordKey(records[places[i-1].at:])) {
			continue
		}
		sorted = append(sorted, p.at)
	}
	return sorted
}

// uncoveredPlaces removes range deletes, and records that a later one covers.
func uncoveredPlaces(records []byte, places []place, last int, cover *rangedel.Cover) []place {
	before := last - len(places)
	kept := places[:0]
	for i, p := range places {
		// A range delete has its number as version, and covers records with smaller numbers.
		if entry.KindOf(records[p.at:]) != entry.RangeDelete && cover.Newest(recordKey(records[p.at:])) <= entry.Version(before+i+1) {
			kept = append(kept, p)
		}
	}
	return kept
}

// recordKey returns the key of the record at the start of rec, which this process encoded.
func recordKey(rec []byte) []byte {
	r, _ := entry.DecodeRecord(rec)
	return r.Key
}
