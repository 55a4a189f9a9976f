package brock

// A stored key is the keyspace's prefix and the user's key. Only the default
// keyspace exists: its prefix is one zero byte.
const keyspacePrefix = 0

// pastKeyspace is the bound after the last stored key of the default keyspace.
var pastKeyspace = []byte{keyspacePrefix + 1}

// firstOfKeyspace is not above any stored key of the default keyspace.
var firstOfKeyspace = []byte{keyspacePrefix}

// appendStored appends the stored form of key to dst.
func appendStored(dst, key []byte) []byte {
	return append(append(dst, keyspacePrefix), key...)
}

// userKey is the user's part of a stored key. Its capacity ends with it, so
// that an append by its reader can't reach what follows.
func userKey(stored []byte) []byte {
	if len(stored) == 0 {
		return nil
	}
	return stored[1:len(stored):len(stored)]
}

// storedBounds turns user bounds, nil meaning open, into stored ones.
func storedBounds(lo, hi []byte) (slo, shi []byte) {
	slo, shi = firstOfKeyspace, pastKeyspace
	if lo != nil {
		slo = appendStored(make([]byte, 0, len(lo)+1), lo)
	}
	if hi != nil {
		shi = appendStored(make([]byte, 0, len(hi)+1), hi)
	}
	return slo, shi
}

// afterPrefix is the least key above all that begin with the stored prefix p.
func afterPrefix(p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0xff {
			hi := append([]byte(nil), p[:i+1]...)
			hi[i]++
			return hi
		}
	}
	return pastKeyspace // not reached: p begins with the keyspace's prefix
}
