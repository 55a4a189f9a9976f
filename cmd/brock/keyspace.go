package main

import (
	"fmt"

	"github.com/brockdb/brock"
)

// keyspaceFlag says in which keyspace a command works.
type keyspaceFlag struct {
	Keyspace string `help:"Name of the keyspace; default: the default keyspace." placeholder:"NAME"`
}

// find returns the keyspace, or brock.ErrKeyspaceNotFound; nil is the default keyspace.
func (k keyspaceFlag) find(db *brock.DB) (*brock.Keyspace, error) {
	if k.Keyspace == "" {
		return nil, nil
	}
	return findKeyspace(db, k.Keyspace)
}

// findKeyspace returns the keyspace of a name, or brock.ErrKeyspaceNotFound. It makes none.
func findKeyspace(db *brock.DB, name string) (*brock.Keyspace, error) {
	for ks := range db.Keyspaces() {
		if ks.Name() == name {
			return ks, nil
		}
	}
	return nil, absentKeyspace{name, brock.ErrKeyspaceNotFound}
}

// view runs fn in a transaction that addresses the keyspace.
func (k keyspaceFlag) view(a *app, db *brock.DB, fn func(*brock.Txn) error) error {
	ks, err := k.find(db)
	if err != nil {
		return err
	}
	return db.ViewContext(a.ctx, brock.TxnOptions{}, func(txn *brock.Txn) error { return fn(txn.In(ks)) })
}

// absentKeyspace is brock.ErrKeyspaceNotFound with what to do about it.
type absentKeyspace struct {
	name string
	error
}

func (e absentKeyspace) Error() string {
	return fmt.Sprintf("no keyspace %q (brock keyspaces lists and creates them)", e.name)
}

func (e absentKeyspace) Unwrap() error { return e.error }
