package brock

import "github.com/brockdb/brock/internal/view"

// EstimateSize estimates the entries in [lo, hi) of the default keyspace, in
// memory and in files, and the bytes of their keys and values as stored. It reads
// few of them, all within the range; nil bounds are open. Old versions and deletes count until a
// compaction drops them. What can't be read, as in a closed store, counts as nothing. For a prefix:
// EstimateSize(PrefixRange(prefix)).
func (db *DB) EstimateSize(lo, hi []byte) (entries, bytes int64) {
	return db.main.EstimateSize(lo, hi)
}

// EstimateSize is DB.EstimateSize for keys of the keyspace; with nil bounds, of
// all of it.
func (k *Keyspace) EstimateSize(lo, hi []byte) (entries, bytes int64) {
	k.pinRange(lo, hi, func(p *view.Pin, lo, hi []byte) {
		n, size, separated := p.EstimateSize(lo, hi)
		entries, bytes = int64(n), int64(size+separated)
	})
	return entries, bytes
}

// Split returns at most n-1 keys, in order, that cut [lo, hi) of the default
// keyspace into parts of about the same size; nil bounds are open. It makes 65,537 parts
// at most, and fewer if keys are long or there are few. The keys belong to the caller. What
// can't be read, as in a closed store, gives no keys.
func (db *DB) Split(lo, hi []byte, n int) [][]byte { return db.main.Split(lo, hi, n) }

// Split is DB.Split for keys of the keyspace.
func (k *Keyspace) Split(lo, hi []byte, n int) [][]byte {
	var keys [][]byte
	k.pinRange(lo, hi, func(p *view.Pin, lo, hi []byte) {
		for _, stored := range p.SplitRange(lo, hi, n) {
			// A bound of the keyspace itself has no user part, and cuts nothing off.
			if key := userBound(stored); key != nil {
				keys = append(keys, key)
			}
		}
	})
	return keys
}

// pinRange calls fn with a pin of the newest version and the stored form of [lo, hi), unless that
// can't be read.
func (k *Keyspace) pinRange(lo, hi []byte, fn func(p *view.Pin, lo, hi []byte)) {
	if k.checkExists() != nil {
		return
	}
	lo, hi, err := k.storedBounds(nil, lo, hi, nil)
	if err != nil {
		return
	}
	p, err := k.db.engine.Views.Acquire(0)
	if err != nil {
		return
	}
	defer p.Release()
	fn(p, lo, hi)
}
