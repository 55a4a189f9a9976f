//go:build cgo_peers && cgo

package kv

/*
#cgo LDFLAGS: -llmdb
#include <stdlib.h>
#include <lmdb.h>
#include "cgo_touch.h"

static tally lmdb_get(MDB_txn *txn, MDB_dbi dbi, void *key, size_t n, int value) {
	tally t = {0};
	MDB_val k = {n, key}, v;
	if ((t.rc = mdb_txn_renew(txn))) return t;
	if ((t.rc = mdb_get(txn, dbi, &k, &v)) == 0) {
		t.entries = 1;
		if (value) t.sum = touch(v.mv_data, v.mv_size);
	}
	if (t.rc == MDB_NOTFOUND) t.rc = 0;
	mdb_txn_reset(txn);
	return t;
}

static tally lmdb_scan(MDB_txn *txn, MDB_dbi dbi, void *from, size_t n, int64_t limit, int values) {
	tally t = {0};
	MDB_val k = {n, from}, v;
	MDB_cursor *c;
	if ((t.rc = mdb_txn_renew(txn))) return t;
	if ((t.rc = mdb_cursor_open(txn, dbi, &c)) == 0) {
		t.rc = mdb_cursor_get(c, &k, &v, n ? MDB_SET_RANGE : MDB_FIRST);
		while (t.rc == 0 && t.entries != limit) {
			t.sum += touch(k.mv_data, k.mv_size);
			if (values) t.sum += touch(v.mv_data, v.mv_size);
			t.entries++;
			t.rc = mdb_cursor_get(c, &k, &v, MDB_NEXT);
		}
		if (t.rc == MDB_NOTFOUND) t.rc = 0;
		mdb_cursor_close(c);
	}
	mdb_txn_reset(txn);
	return t;
}

static int lmdb_put(MDB_env *env, MDB_dbi dbi, void *key, size_t kn, void *value, size_t vn) {
	MDB_txn *txn;
	MDB_val k = {kn, key}, v = {vn, value};
	int rc = mdb_txn_begin(env, NULL, 0, &txn);
	if (rc) return rc;
	if ((rc = mdb_put(txn, dbi, &k, &v, 0))) {
		mdb_txn_abort(txn);
		return rc;
	}
	return mdb_txn_commit(txn);
}

static int lmdb_apply(MDB_env *env, MDB_dbi dbi, char *p, size_t n) {
	MDB_txn *txn;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);
	if (rc) return rc;
	for (char *end = p + n; p < end && rc == 0;) {
		change *c = (change *)p;
		MDB_val k = {c->key, p + sizeof(*c)}, v = {c->value, p + sizeof(*c) + c->key};
		if (!c->remove) rc = mdb_put(txn, dbi, &k, &v, 0);
		else if ((rc = mdb_del(txn, dbi, &k, NULL)) == MDB_NOTFOUND) rc = 0;
		p += (sizeof(*c) + c->key + c->value + 3) & ~(size_t)3;
	}
	if (rc) {
		mdb_txn_abort(txn);
		return rc;
	}
	return mdb_txn_commit(txn);
}

static int lmdb_begin_read(MDB_env *env, MDB_txn **txn) {
	int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, txn);
	if (rc == 0) mdb_txn_reset(*txn);
	return rc;
}

static int lmdb_open_dbi(MDB_env *env, MDB_dbi *dbi) {
	MDB_txn *txn;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);
	if (rc) return rc;
	if ((rc = mdb_dbi_open(txn, NULL, 0, dbi))) {
		mdb_txn_abort(txn);
		return rc;
	}
	return mdb_txn_commit(txn);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

const (
	lmdbSetup   = "read transactions renewed, not begun (MDB_NOTLS); buffered: MDB_NOSYNC; no readahead (MDB_NORDAHEAD) where data is larger than memory, as its documents advise; a map of four times the data; whole gets, scans and commits in C"
	lmdbReaders = 512
)

type lmdbStore struct {
	env *C.MDB_env
	dbi C.MDB_dbi

	mu   sync.Mutex
	idle []*C.MDB_txn // read transactions that were reset
	all  []*C.MDB_txn
}

func lmdbVersion() string {
	var major, minor, patch C.int
	C.mdb_version(&major, &minor, &patch)
	return fmt.Sprintf("%d.%d.%d", major, minor, patch)
}

func lmdbError(rc C.int) error {
	if rc == 0 {
		return nil
	}
	return errors.New("lmdb: " + C.GoString(C.mdb_strerror(rc)))
}

func openLMDB(c Config) (Store, error) {
	s := &lmdbStore{}
	if err := lmdbError(C.mdb_env_create(&s.env)); err != nil {
		return nil, err
	}
	flags := C.uint(C.MDB_NOTLS)
	if !c.Sync {
		flags |= C.MDB_NOSYNC
	}
	if c.Memory > 0 && c.DataBytes > c.Memory {
		flags |= C.MDB_NORDAHEAD
	}
	dir := C.CString(c.Dir)
	defer C.free(unsafe.Pointer(dir))
	for _, rc := range []func() C.int{
		func() C.int { return C.mdb_env_set_mapsize(s.env, C.size_t(max(1<<30, 4*c.DataBytes))) },
		func() C.int { return C.mdb_env_set_maxreaders(s.env, lmdbReaders) },
		func() C.int { return C.mdb_env_open(s.env, dir, flags, 0o600) },
		func() C.int { return C.lmdb_open_dbi(s.env, &s.dbi) },
	} {
		if err := lmdbError(rc()); err != nil {
			C.mdb_env_close(s.env)
			return nil, err
		}
	}
	return s, nil
}

// read lends a read transaction.
func (s *lmdbStore) read(fn func(*C.MDB_txn) C.tally) (t Tally, err error) {
	s.mu.Lock()
	var txn *C.MDB_txn
	if n := len(s.idle); n > 0 {
		txn, s.idle = s.idle[n-1], s.idle[:n-1]
	} else if rc := C.lmdb_begin_read(s.env, &txn); rc != 0 {
		s.mu.Unlock()
		return t, lmdbError(rc)
	} else {
		s.all = append(s.all, txn)
	}
	s.mu.Unlock()
	r := fn(txn)
	s.mu.Lock()
	s.idle = append(s.idle, txn)
	s.mu.Unlock()
	return Tally{Entries: int(r.entries), Sum: uint64(r.sum)}, lmdbError(r.rc)
}

func (s *lmdbStore) get(key []byte, value C.int) (Tally, error) {
	return s.read(func(txn *C.MDB_txn) C.tally {
		return C.lmdb_get(txn, s.dbi, pointer(key), C.size_t(len(key)), value)
	})
}

func (s *lmdbStore) Get(key []byte) (uint64, bool, error) {
	t, err := s.get(key, 1)
	return t.Sum, t.Entries == 1, err
}

func (s *lmdbStore) Has(key []byte) (bool, error) {
	t, err := s.get(key, 0)
	return t.Entries == 1, err
}

func (s *lmdbStore) Scan(from []byte, limit int, values bool) (Tally, error) {
	return s.read(func(txn *C.MDB_txn) C.tally {
		return C.lmdb_scan(txn, s.dbi, pointer(from), C.size_t(len(from)), C.int64_t(limit), cBool(values))
	})
}

func cBool(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func (s *lmdbStore) Set(key, value []byte) error {
	return lmdbError(C.lmdb_put(s.env, s.dbi, pointer(key), C.size_t(len(key)), pointer(value), C.size_t(len(value))))
}

func (s *lmdbStore) Apply(changes []Change) error {
	if err := packable(changes); err != nil {
		return err
	}
	b := pack(changes)
	return lmdbError(C.lmdb_apply(s.env, s.dbi, (*C.char)(pointer(b)), C.size_t(len(b))))
}

func (s *lmdbStore) Close() error {
	for _, txn := range s.all {
		C.mdb_txn_abort(txn)
	}
	C.mdb_env_close(s.env)
	return nil
}
