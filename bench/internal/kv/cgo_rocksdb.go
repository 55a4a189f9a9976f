//go:build cgo_peers && cgo

package kv

/*
#cgo LDFLAGS: -lrocksdb
#include <stdlib.h>
#include <rocksdb/c.h>
#include "cgo_touch.h"

typedef struct {
	rocksdb_t *db;
	rocksdb_options_t *options;
	rocksdb_block_based_table_options_t *table;
	rocksdb_cache_t *cache;
	rocksdb_readoptions_t *read;
	rocksdb_writeoptions_t *write;
	rocksdb_flushoptions_t *flush;
} rocks;

typedef struct {
	const char *dir;
	size_t cache, memtable;
	int sync, cpus, blob, overwrites;
	uint64_t blob_threshold;
} rocks_config;

// rocks_open sets what RocksDB's wiki advises in "Setup Options and Basic
// Tuning", and no compression.
static char *rocks_open(rocks *r, rocks_config c) {
	char *err = NULL;
	r->options = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(r->options, 1);
	rocksdb_options_increase_parallelism(r->options, c.cpus);
	rocksdb_options_set_max_background_jobs(r->options, 6);
	rocksdb_options_set_level_compaction_dynamic_level_bytes(r->options, 1);
	rocksdb_options_set_bytes_per_sync(r->options, 1 << 20);
	rocksdb_options_set_write_buffer_size(r->options, c.memtable);
	rocksdb_options_set_compression(r->options, rocksdb_no_compression);
	if (c.blob) {
		rocksdb_options_set_enable_blob_files(r->options, 1);
		rocksdb_options_set_min_blob_size(r->options, c.blob_threshold);
		rocksdb_options_set_enable_blob_gc(r->options, c.overwrites);
	}
	r->table = rocksdb_block_based_options_create();
	r->cache = rocksdb_cache_create_lru(c.cache);
	rocksdb_block_based_options_set_block_cache(r->table, r->cache);
	rocksdb_block_based_options_set_block_size(r->table, 16 << 10);
	rocksdb_block_based_options_set_format_version(r->table, 5);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(r->table, 1);
	rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(r->table, 1);
	rocksdb_block_based_options_set_filter_policy(r->table, rocksdb_filterpolicy_create_bloom_full(10));
	rocksdb_options_set_block_based_table_factory(r->options, r->table);
	r->read = rocksdb_readoptions_create();
	r->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(r->write, c.sync);
	r->flush = rocksdb_flushoptions_create();
	rocksdb_flushoptions_set_wait(r->flush, 1);
	r->db = rocksdb_open(r->options, c.dir, &err);
	return err;
}

static void rocks_close(rocks *r) {
	if (r->db) rocksdb_close(r->db);
	rocksdb_flushoptions_destroy(r->flush);
	rocksdb_writeoptions_destroy(r->write);
	rocksdb_readoptions_destroy(r->read);
	rocksdb_options_destroy(r->options);
	rocksdb_block_based_options_destroy(r->table);
	rocksdb_cache_destroy(r->cache);
}

typedef struct { tally t; char *err; } rocks_result;

static rocks_result rocks_get(rocks *r, const char *key, size_t n) {
	rocks_result g = {0};
	rocksdb_pinnableslice_t *v = rocksdb_get_pinned(r->db, r->read, key, n, &g.err);
	if (v) {
		size_t len;
		const char *p = rocksdb_pinnableslice_value(v, &len);
		g.t.entries = 1;
		g.t.sum = touch(p, len);
		rocksdb_pinnableslice_destroy(v);
	}
	return g;
}

static rocks_result rocks_scan(rocks *r, const char *from, size_t n, int64_t limit, int values) {
	rocks_result g = {0};
	rocksdb_iterator_t *it = rocksdb_create_iterator(r->db, r->read);
	if (n) rocksdb_iter_seek(it, from, n);
	else rocksdb_iter_seek_to_first(it);
	for (; g.t.entries != limit && rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
		size_t len;
		const char *p = rocksdb_iter_key(it, &len);
		g.t.sum += touch(p, len);
		if (values) {
			p = rocksdb_iter_value(it, &len);
			g.t.sum += touch(p, len);
		}
		g.t.entries++;
	}
	rocksdb_iter_get_error(it, &g.err);
	rocksdb_iter_destroy(it);
	return g;
}

static char *rocks_put(rocks *r, const char *key, size_t kn, const char *value, size_t vn) {
	char *err = NULL;
	rocksdb_put(r->db, r->write, key, kn, value, vn, &err);
	return err;
}

static char *rocks_apply(rocks *r, const char *p, size_t n) {
	char *err = NULL;
	rocksdb_writebatch_t *b = rocksdb_writebatch_create();
	for (const char *end = p + n; p < end;) {
		const change *c = (const change *)p;
		const char *key = p + sizeof(*c);
		if (c->remove) rocksdb_writebatch_delete(b, key, c->key);
		else rocksdb_writebatch_put(b, key, c->key, key + c->key, c->value);
		p += (sizeof(*c) + c->key + c->value + 3) & ~(size_t)3;
	}
	rocksdb_write(r->db, r->write, b, &err);
	rocksdb_writebatch_destroy(b);
	return err;
}

static char *rocks_flush(rocks *r) {
	char *err = NULL;
	rocksdb_flush(r->db, r->flush, &err);
	return err;
}

static int rocks_busy(rocks *r) {
	uint64_t sum = 0, n;
	const char *names[] = {"rocksdb.num-running-compactions", "rocksdb.num-running-flushes", "rocksdb.compaction-pending", "rocksdb.mem-table-flush-pending"};
	for (int i = 0; i < 4; i++)
		if (rocksdb_property_int(r->db, names[i], &n) == 0) sum += n;
	return sum > 0;
}
*/
import "C"

import (
	"errors"
	"runtime"
	"unsafe"
)

const (
	rocksBlobThreshold = 512 // as pebble-sep

	rocksSetup     = "what its wiki advises in \"Setup Options and Basic Tuning\": dynamic levels, six background jobs, blocks of 16 KB, Bloom filters of 10 bits, index and filters in the block cache, which holds all data, or a third of a limited memory; no compression; whole gets, scans and commits in C"
	rocksBlobSetup = "the same with values of 512 B and more in blob files, collected where values are overwritten"
)

type rocksStore struct{ r *C.rocks }

func openRocks(c Config) (Store, error) { return newRocks(c, 0) }

func openRocksBlob(c Config) (Store, error) { return newRocks(c, 1) }

func newRocks(c Config, blob C.int) (Store, error) {
	dir := C.CString(c.Dir)
	defer C.free(unsafe.Pointer(dir))
	s := &rocksStore{(*C.rocks)(C.calloc(1, C.sizeof_rocks))}
	config := C.rocks_config{
		dir: dir, cache: C.size_t(c.cache()), memtable: C.size_t(c.memtable(64 << 20)), sync: cBool(c.Sync),
		cpus: C.int(runtime.NumCPU()), blob: blob, overwrites: cBool(c.Overwrites), blob_threshold: rocksBlobThreshold,
	}
	if err := rocksError(C.rocks_open(s.r, config)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func rocksError(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return errors.New("rocksdb: " + C.GoString(text))
}

func rocksTally(g C.rocks_result) (Tally, error) {
	return Tally{Entries: int(g.t.entries), Sum: uint64(g.t.sum)}, rocksError(g.err)
}

func chars(b []byte) *C.char { return (*C.char)(pointer(b)) }

func (s *rocksStore) Get(key []byte) (uint64, bool, error) {
	t, err := rocksTally(C.rocks_get(s.r, chars(key), C.size_t(len(key))))
	return t.Sum, t.Entries == 1, err
}

func (s *rocksStore) Scan(from []byte, limit int, values bool) (Tally, error) {
	return rocksTally(C.rocks_scan(s.r, chars(from), C.size_t(len(from)), C.int64_t(limit), cBool(values)))
}

func (s *rocksStore) Set(key, value []byte) error {
	return rocksError(C.rocks_put(s.r, chars(key), C.size_t(len(key)), chars(value), C.size_t(len(value))))
}

func (s *rocksStore) Apply(changes []Change) error {
	if err := packable(changes); err != nil {
		return err
	}
	b := pack(changes)
	return rocksError(C.rocks_apply(s.r, chars(b), C.size_t(len(b))))
}

func (s *rocksStore) Flush() error { return rocksError(C.rocks_flush(s.r)) }

func (s *rocksStore) Busy() bool { return C.rocks_busy(s.r) != 0 }

func (s *rocksStore) Close() error {
	C.rocks_close(s.r)
	C.free(unsafe.Pointer(s.r))
	return nil
}
