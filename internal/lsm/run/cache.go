package run

import "github.com/brockdb/brock/internal/disk/pageio"

// Cache keeps what was decrypted of encrypted files, and what was read of those that are
// not mapped. Readers may share one; any number of goroutines may use it.
type Cache = pageio.Cache

// NewCache returns a Cache of at most limit bytes; 0 = 64 MB.
func NewCache(limit int64) *Cache { return pageio.NewCache(limit) }
