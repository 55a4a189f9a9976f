package brock

import "github.com/brockdb/brock/internal/entry"

func pinGet(p pin, key []byte, e *entry.Entry) (found bool, err error) {
	return p.Get(key, e)
}

func pinValue(p pin, key []byte, e *entry.Entry) (v []byte, err error) {
	return p.Value(key, e)
}

func (it *Iterator) guard() {}
