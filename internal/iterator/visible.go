package iterator

import (
	"bytes"

	"github.com/brockdb/brock/internal/entry"
)

// Visible walks what a reader at a version sees of src, which it owns from now
// on: of each key the newest version that is not greater than at, unless that is
// a delete or has expired at now (Unix milliseconds).
func Visible(src Iterator, at entry.Version, now uint64) Iterator {
	return &visible{src: src, at: at, now: now}
}

// visible decides key by key.
//
// Forward, src is at the current entry. Backward, a key's newest entry comes
// last, so src has gone on to an entry of a lesser key, or to the end, and the
// current entry is a copy.
type visible struct {
	src    Iterator
	at     entry.Version
	now    uint64
	state  place
	more   bool        // backward: src is at an entry
	key    []byte      // scratch: the key being decided or skipped
	copied entry.Entry // backward: the current entry; its Key is key
}

type place uint8

const (
	nowhere place = iota
	forward
	backward
)

// After so many versions of one key the rest are skipped by a seek.
const patience = 16

func (v *visible) First() bool            { return v.forward(v.src.First()) }
func (v *visible) Last() bool             { return v.backward(v.src.Last()) }
func (v *visible) SeekGE(key []byte) bool { return v.forward(v.src.SeekGE(key)) }
func (v *visible) SeekLT(key []byte) bool { return v.backward(v.src.SeekLT(key)) }

func (v *visible) Next() bool {
	switch v.state {
	case forward:
		v.key = append(v.key[:0], v.src.Entry().Key...)
		return v.forward(v.skipForward(v.src.Next()))
	case backward: // v.key is the current key
		ok := v.more
		if ok {
			ok = v.src.Next()
		} else {
			ok = v.src.First()
		}
		return v.forward(v.skipForward(ok))
	}
	return false
}

func (v *visible) Prev() bool {
	switch v.state {
	case forward:
		v.key = append(v.key[:0], v.src.Entry().Key...)
		return v.backward(v.skipBackward(v.src.Prev()))
	case backward:
		if !v.more {
			v.state = nowhere
			return false
		}
		return v.backward(true)
	}
	return false
}

// forward finds the first visible entry from src's position on, which is at the
// newest version of its key.
func (v *visible) forward(ok bool) bool {
	for ok {
		e := v.src.Entry()
		if e.Version > v.at {
			ok = v.src.Next()
			continue
		}
		if e.Live(v.now) {
			v.state = forward
			return true
		}
		v.key = append(v.key[:0], e.Key...)
		ok = v.skipForward(v.src.Next())
	}
	v.state = nowhere
	return false
}

// skipForward moves src on to a key greater than v.key.
func (v *visible) skipForward(ok bool) bool {
	for n := 0; ok && bytes.Compare(v.src.Entry().Key, v.key) <= 0; n++ {
		if n == patience {
			v.key = append(v.key, 0)
			return v.src.SeekGE(v.key)
		}
		ok = v.src.Next()
	}
	return ok
}

// skipBackward moves src back to a key less than v.key.
func (v *visible) skipBackward(ok bool) bool {
	for n := 0; ok && bytes.Compare(v.src.Entry().Key, v.key) >= 0; n++ {
		if n == patience {
			return v.src.SeekLT(v.key)
		}
		ok = v.src.Prev()
	}
	return ok
}

// backward finds the last visible entry up to src's position, which is at the
// oldest version of its key.
func (v *visible) backward(ok bool) bool {
	for ok {
		e := v.src.Entry()
		v.key = append(v.key[:0], e.Key...)
		found := false
		for ok && e.Version <= v.at {
			v.copied, found = *e, true
			if ok = v.src.Prev(); ok {
				e = v.src.Entry()
				if !bytes.Equal(e.Key, v.key) {
					break
				}
			}
		}
		ok = v.skipBackward(ok) // versions that are too new
		if !ok && v.src.Err() != nil {
			break
		}
		if found && v.copied.Live(v.now) {
			v.copied.Key = v.key
			v.state, v.more = backward, ok
			return true
		}
	}
	v.state = nowhere
	return false
}

func (v *visible) Entry() *entry.Entry {
	if v.state == backward {
		return &v.copied
	}
	return v.src.Entry()
}

func (v *visible) Err() error { return v.src.Err() }

func (v *visible) Close() {
	v.state = nowhere
	v.src.Close()
}
