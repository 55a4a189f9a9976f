package brock

// EstimateSize estimates the entries in [lo, hi) of the default keyspace, in
// memory and in files, and the bytes of their keys and values as stored. It reads
// few of them, all within the range; nil bounds are open. Old versions and deletes count until a
// compaction drops them. What can't be read, as in a closed store, counts as nothing.
func (db *DB) EstimateSize(lo, hi []byte) (entries, bytes int64) {
	return db.main.EstimateSize(lo, hi)
}

// EstimateSize is DB.EstimateSize for keys of the keyspace; with nil bounds, of
// all of it.
func (k *Keyspace) EstimateSize(lo, hi []byte) (entries, bytes int64) {
	if k.usable() != nil {
		return 0, 0
	}
	lo, hi, err := k.storedBounds(lo, hi, nil)
	if err != nil {
		return 0, 0
	}
	p, err := k.db.engine.Views.Acquire(0)
	if err != nil {
		return 0, 0
	}
	defer p.Release()
	n, size, separated := p.Size(lo, hi)
	return int64(n), int64(size + separated)
}

// Split returns at most n-1 keys, in order, that cut [lo, hi) of the default
// keyspace into parts of about the same size; nil bounds are open. It makes 65,537 parts
// at most, and fewer if keys are long or there are few. The keys belong to the caller.
func (db *DB) Split(lo, hi []byte, n int) [][]byte { return db.main.Split(lo, hi, n) }

// Split is DB.Split for keys of the keyspace.
func (k *Keyspace) Split(lo, hi []byte, n int) [][]byte {
	if k.usable() != nil || n < 2 {
		return nil
	}
	lo, hi, err := k.storedBounds(lo, hi, nil)
	if err != nil {
		return nil
	}
	p, err := k.db.engine.Views.Acquire(0)
	if err != nil {
		return nil
	}
	defer p.Release()
	keys := p.Split(lo, hi, n)
	out := make([][]byte, 0, len(keys))
	for _, key := range keys {
		if u := userKey(key); len(u) > 0 {
			out = append(out, append([]byte(nil), u...))
		}
	}
	return out
}
