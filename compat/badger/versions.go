package badger

import (
	"bytes"

	"github.com/brockdb/brock"
)

// beginManaged makes the iterator of Brock over the stored versions of a managed store, and puts the
// transaction's own writes over it, as they are now.
func (it *Iterator) beginManaged() {
	t := it.txn
	o := brock.IteratorOptions{Reverse: it.opt.Reverse, KeysOnly: !it.opt.PrefetchValues}
	switch {
	case it.opt.prefixIsKey:
		o.Lower = append(appendEscaped(nil, it.opt.Prefix), escapeByte, keyEnd)
		o.Upper = appendBehind(nil, it.opt.Prefix)
	case !it.opt.Reverse:
		o.Prefix = appendEscaped(nil, it.opt.Prefix)
	}
	it.under = t.brock.NewIterator(o)
	versions := &versionSource{it: it}
	versions.item.txn = t
	it.src = versions
	if len(t.pending) == 0 {
		return
	}
	shown := make([]shownEntry, 0, len(t.pending))
	for _, e := range t.pending {
		shown = append(shown, shownEntry{key: e.Key, entry: e, version: t.readTs, own: true})
	}
	it.src = newMerged(it, versions, shown)
}

// versionSource yields what a managed transaction sees of the stored versions.
type versionSource struct {
	it    *Iterator
	item  Item
	valid bool
	err   error

	stem    []byte // of the key whose versions are done with
	room    []byte // memory for seeks
	scratch []byte // memory for a key of which bytes were escaped
}

// stepsBeforeSeek is how many stored versions are passed one by one before a seek passes the others.
const stepsBeforeSeek = 8

func (v *versionSource) seek(key []byte) {
	v.stem, v.err = v.stem[:0], nil
	switch {
	case len(key) == 0:
		v.it.under.Rewind()
	case v.it.opt.Reverse:
		v.room = appendBehind(v.room[:0], key)
		v.it.under.Seek(v.room)
	default:
		v.room = appendStored(v.room[:0], key, v.it.txn.readTs)
		v.it.under.Seek(v.room)
	}
	v.settle()
}

func (v *versionSource) advance() {
	if !v.valid {
		return
	}
	v.it.under.Next()
	v.settle()
}

func (v *versionSource) current() *Item {
	if !v.valid {
		return nil
	}
	return &v.item
}

func (v *versionSource) failure() error {
	if v.err != nil {
		return v.err
	}
	return v.it.under.Err()
}

// settle finds the next version that is shown, from the one at which the iterator of Brock is.
func (v *versionSource) settle() {
	v.valid = false
	for steps := 0; v.it.under.Valid() && v.err == nil; {
		source := v.it.under.Item()
		if v.err = v.item.setVersion(source, v.scratch); v.err != nil {
			return
		}
		stored := source.Key()
		stem := stored[:len(stored)-versionBytes]
		if len(v.item.key) != len(stem)-2 {
			v.scratch = v.item.key // bytes were escaped
		}
		switch {
		case v.it.opt.AllVersions:
			if v.valid = v.sees(); v.valid {
				return
			}
			v.it.under.Next()
		case len(v.stem) > 0 && bytes.Equal(stem, v.stem):
			steps = v.pass(steps)
		case v.it.opt.Reverse:
			steps = 0
			if v.valid = v.findNewest(stem); v.valid || v.err != nil {
				return
			}
		case v.item.version > v.it.txn.readTs:
			steps = v.reach(steps, stem)
		default:
			steps = 0
			v.stem = append(v.stem[:0], stem...)
			if v.valid = v.sees() && v.hasValue(); v.valid || v.err != nil {
				return
			}
			v.it.under.Next()
		}
	}
}

// sees reports whether the version of the item is one that the transaction asks for.
func (v *versionSource) sees() bool {
	since := v.it.opt.SinceTs
	return v.item.version <= v.it.txn.readTs && (since == 0 || v.item.version > since)
}

// pass passes a version of the key that is done with.
func (v *versionSource) pass(steps int) int {
	if steps++; steps < stepsBeforeSeek {
		v.it.under.Next()
		return steps
	}
	if v.it.opt.Reverse {
		v.it.under.Seek(v.stem) // below all versions of the key
	} else {
		v.room = behindStem(v.room, v.stem)
		v.it.under.Seek(v.room)
	}
	return 0
}

// reach passes a version that is newer than what the transaction reads.
func (v *versionSource) reach(steps int, stem []byte) int {
	if steps++; steps < stepsBeforeSeek {
		v.it.under.Next()
		return steps
	}
	v.room = appendVersion(append(v.room[:0], stem...), v.it.txn.readTs)
	v.it.under.Seek(v.room)
	return 0
}

// findNewest makes the newest version that the transaction sees of a key the item. In reverse the walk
// meets the oldest one first. It reports false if the key has no value there.
func (v *versionSource) findNewest(stem []byte) bool {
	v.stem = append(v.stem[:0], stem...)
	t := v.it.txn
	v.room = appendVersion(append(v.room[:0], v.stem...), t.readTs)
	t.point.Lock() // other iterators of the transaction may have goroutines of their own
	found, err := t.brock.First(v.room, behindStem(nil, v.stem))
	t.point.Unlock()
	switch {
	case err == brock.ErrKeyNotFound:
		return false
	case err != nil:
		v.err = err
		return false
	}
	if v.err = v.item.setVersion(found, nil); v.err != nil {
		return false
	}
	return v.sees() && v.hasValue()
}

// hasValue reports whether the item is not deleted and has not expired.
func (v *versionSource) hasValue() bool {
	if v.item.flags&flagExpires != 0 {
		v.err = v.item.readHeader()
	}
	return v.err == nil && !v.item.IsDeletedOrExpired()
}
