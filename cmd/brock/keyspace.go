package main

import (
	"fmt"

	"github.com/brockdb/brock"
)

// keyspaceFlag says in which keyspace a command works.
type keyspaceFlag struct {
	Keyspace string `help:"Name of the keyspace; default: the default keyspace." placeholder:"NAME"`
}

// find is the keyspace, which must be there; nil is the default one.
func (k keyspaceFlag) find(db *brock.DB) (*brock.Keyspace, error) {
	if k.Keyspace == "" {
		return nil, nil
	}
	for ks := range db.Keyspaces() {
		if ks.Name() == k.Keyspace {
			return ks, nil
		}
	}
	return nil, fmt.Errorf("keyspace %q: %w", k.Keyspace, brock.ErrKeyspaceNotFound)
}

// open is find, but makes the keyspace if it is not there.
func (k keyspaceFlag) open(db *brock.DB) (*brock.Keyspace, error) {
	if k.Keyspace == "" {
		return nil, nil
	}
	return db.Keyspace(k.Keyspace)
}

// view runs fn in a transaction that addresses the keyspace.
func (k keyspaceFlag) view(a *app, db *brock.DB, fn func(*brock.Txn) error) error {
	ks, err := k.find(db)
	if err != nil {
		return err
	}
	return db.ViewContext(a.ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return fn(txn.In(ks)) })
}
