package badger

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/brockdb/brock"
)

// bannedPrefix begins the keys by which a store notes its banned namespaces, as in Badger; the number
// follows, 8 bytes big-endian.
const bannedPrefix = "!badger!banned"

// banned is the set of the banned namespaces.
type banned struct {
	mu  sync.RWMutex // guards:
	set map[uint64]struct{}
}

func (b *banned) add(ns uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set == nil {
		b.set = make(map[uint64]struct{})
	}
	b.set[ns] = struct{}{}
}

func (b *banned) has(ns uint64) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	_, ok := b.set[ns]
	return ok
}

// checkBanned returns ErrBannedKey for a key of a banned namespace.
func (db *DB) checkBanned(key []byte) error {
	at := db.opt.NamespaceOffset
	if at < 0 || len(key) <= at+8 {
		return nil
	}
	if db.banned.has(binary.BigEndian.Uint64(key[at:])) {
		return ErrBannedKey
	}
	return nil
}

// loadBanned reads the banned namespaces.
func (db *DB) loadBanned() error {
	if db.opt.NamespaceOffset < 0 {
		return nil
	}
	return db.data.View(func(txn *brock.Txn) error {
		for item, err := range txn.Items(brock.IteratorOptions{Prefix: []byte(bannedPrefix), KeysOnly: true}) {
			if err != nil {
				return err
			}
			key := item.Key()
			if db.opt.managedTxns {
				stem, _, ok := parseStored(key)
				if !ok {
					return errCutVersion
				}
				key = userKeyOf(stem, nil)
			}
			if len(key) == len(bannedPrefix)+8 {
				db.banned.add(binary.BigEndian.Uint64(key[len(bannedPrefix):]))
			}
		}
		return nil
	})
}

// BanNamespace refuses reads and writes of the keys of a namespace from now on, also after the next Open.
// It returns ErrNamespaceMode without Options.NamespaceOffset. It panics in a read-only store.
func (db *DB) BanNamespace(ns uint64) error {
	if db.opt.NamespaceOffset < 0 {
		return ErrNamespaceMode
	}
	if db.opt.ReadOnly {
		panic("Cannot ban namespace in read-only mode.")
	}
	e := Entry{Key: binary.BigEndian.AppendUint64([]byte(bannedPrefix), ns), version: 1}
	var err error
	if db.opt.managedTxns {
		w := newVersionWriter(db)
		if err = w.add(&e, 0); err == nil {
			err = w.commit(brock.DefaultDurability)
		}
	} else {
		b := db.data.NewBatch()
		if err = b.Set(e.Key, nil); err == nil {
			_, err = b.Commit(context.Background(), brock.DefaultDurability)
		}
	}
	if err == nil {
		db.banned.add(ns)
	}
	return writeError(err)
}

// BannedNamespaces returns the banned namespaces, in no order that one may rely on.
func (db *DB) BannedNamespaces() []uint64 {
	db.banned.mu.RLock()
	defer db.banned.mu.RUnlock()
	return slices.Collect(maps.Keys(db.banned.set))
}
