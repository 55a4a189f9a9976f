package run

import "github.com/brockdb/brock/internal/disk/blocks"

// DefaultCacheBytes (64 MB) is the usual bound of a Cache.
const DefaultCacheBytes = blocks.DefaultBytes

// Cache keeps what was decrypted of encrypted files, and what was read of those that are
// not mapped. Readers may share one; any number of goroutines may use it.
type Cache = blocks.Cache

// NewCache returns a Cache of at most limit bytes; 0 = DefaultCacheBytes.
func NewCache(limit int64) *Cache { return blocks.NewCache(limit) }
