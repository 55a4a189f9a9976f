package iterator

import "github.com/brockdb/brock/internal/entry"

// Versions walks those entries of src, which it owns from now on, whose version
// is greater than since and not greater than at: all versions, deletes and
// expired values too.
func Versions(src Iterator, since, at entry.Version) Iterator {
	return &versions{src: src, since: since, at: at}
}

type versions struct {
	src       Iterator
	since, at entry.Version
}

func (v *versions) First() bool            { return v.forward(v.src.First()) }
func (v *versions) Last() bool             { return v.backward(v.src.Last()) }
func (v *versions) SeekGE(key []byte) bool { return v.forward(v.src.SeekGE(key)) }
func (v *versions) SeekLT(key []byte) bool { return v.backward(v.src.SeekLT(key)) }
func (v *versions) Next() bool             { return v.forward(v.src.Next()) }
func (v *versions) Prev() bool             { return v.backward(v.src.Prev()) }
func (v *versions) Entry() *entry.Entry    { return v.src.Entry() }
func (v *versions) Err() error             { return v.src.Err() }
func (v *versions) Close()                 { v.src.Close() }

func (v *versions) forward(ok bool) bool {
	for ok && !v.inside() {
		ok = v.src.Next()
	}
	return ok
}

func (v *versions) backward(ok bool) bool {
	for ok && !v.inside() {
		ok = v.src.Prev()
	}
	return ok
}

func (v *versions) inside() bool {
	version := v.src.Entry().Version
	return version > v.since && version <= v.at
}
