package spill

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

// newestByKey returns the newest record of each key, in the order of keys, without
// those that a later range delete covers. Records and range deletes of a transaction are numbered
// together; before is the number of the record before the first.
func newestByKey(records []byte, before int, cover *rangedel.Cover) []place {
	places := make([]place, 0, len(records)/estimate)
	first := keyAt(records, 0)
	shared := len(first)
	for at, number := 0, entry.Version(before); at < len(records); {
		r, _ := entry.DecodeRecord(records[at:])
		number++
		// A range delete has its number as version, and covers records with smaller numbers.
		if r.Kind != entry.RangeDelete && (cover == nil || cover.Newest(r.Key) <= number) {
			shared = min(shared, entry.CommonPrefix(first[:shared], r.Key))
			places = append(places, place{at: at})
		}
		at += r.Size
	}
	// Most comparisons end with one word: the eight bytes behind the shared prefix.
	for i := range places {
		places[i].word = entry.Word(keyAt(records, places[i].at)[shared:])
	}
	// Of one key, the record that was added last comes first.
	slices.SortFunc(places, func(a, b place) int {
		if a.word != b.word {
			return cmp.Compare(a.word, b.word)
		}
		return cmp.Or(bytes.Compare(keyAt(records, a.at), keyAt(records, b.at)), b.at-a.at)
	})
	// The others are overwritten.
	return slices.CompactFunc(places, func(a, b place) bool {
		return a.word == b.word && bytes.Equal(keyAt(records, a.at), keyAt(records, b.at))
	})
}

// keyAt returns the key of the record that begins at at, which this process encoded.
func keyAt(records []byte, at int) []byte {
	r, _ := entry.DecodeRecord(records[at:])
	return r.Key
}
