package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
	"github.com/brockdb/brock/cmd/brock/internal/progress"
)

// historyLoad writes what export --history has written: each version as a commit of its own number.
type historyLoad struct {
	pairs.Source
	*app
	work    *progress.Work
	db      *brock.DB
	batch   *brock.Batch // writes of the version that comes
	version uint64       // of these; 0 = none yet
	spaces  map[string]*brock.Keyspace
	waiting []*pairs.Section // of keyspaces that are not made yet
	made    []madeKeyspace
	stored  int64 // versions of keys that are committed
	held    int64 // those in batch
}

// run loads into a store that has no commit yet. If it ends before, the store has the versions before
// that, and is to be removed.
func (l *historyLoad) run(db *brock.DB) error {
	if v := db.Version(); v != 0 {
		return fmt.Errorf("a history goes into a new store, with the versions that it had; this one has versions up to %d: %w", v, pairs.ErrInput)
	}
	l.db, l.batch, l.spaces = db, db.NewBatch(), map[string]*brock.Keyspace{"": db.Default()}
	err := l.Each(l.add)
	if err == nil {
		err = l.commit()
	}
	for len(l.waiting) > 0 && err == nil {
		err = l.makeKeyspace()
	}
	for _, m := range l.made {
		err = errors.Join(err, m.SetOptions(exactly(m.options)))
	}
	return errors.Join(err, db.Sync(context.WithoutCancel(l.ctx)))
}

func (l *historyLoad) add(p pairs.Pair, at pairs.Place) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	if p.Section != nil {
		l.waiting = append(l.waiting, p.Section)
		return nil
	}
	switch {
	case p.Version == 0:
		return at.Refuse("no version: it is not of export --history")
	case p.Version < l.version:
		return at.Refuse(fmt.Sprintf("version %d comes behind %d: versions must rise", p.Version, l.version))
	case p.Version > l.version:
		if err := l.begin(p.Version); err != nil {
			return refused(err, at)
		}
	}
	name := ""
	if p.Keyspace != nil {
		name = *p.Keyspace
	}
	ks, ok := l.spaces[name]
	if !ok {
		return at.Refuse(fmt.Sprintf("keyspace %q has no section before, or no version is free to make it", name))
	}
	b := l.batch.In(ks)
	var err error
	if p.Deleted {
		err = b.Delete(p.Key)
	} else {
		err = b.SetEntry(p.Entry())
	}
	l.held++
	l.work.Add(at.Size)
	return refused(err, at)
}

// begin commits what has come, and begins a version. To make a keyspace takes a version, too. Those
// that made them in the store of old are free: each comes before the first write to its keyspace, and
// sections are in the order of these.
func (l *historyLoad) begin(version uint64) error {
	if err := l.commit(); err != nil {
		return err
	}
	for len(l.waiting) > 0 && l.db.Version()+1 < version {
		if err := l.makeKeyspace(); err != nil {
			return err
		}
	}
	l.version = version
	return l.batch.At(version)
}

// commit needs no sync: a load that is interrupted begins anew.
func (l *historyLoad) commit() error {
	if l.version == 0 {
		return nil
	}
	_, err := l.batch.Commit(l.ctx, brock.Buffered)
	l.batch.Reset()
	if err == nil {
		l.stored, l.held = l.stored+l.held, 0
	}
	return err
}

// makeKeyspace makes the next one. Until the end it keeps all versions, and gives no pair a time to
// live.
func (l *historyLoad) makeKeyspace() error {
	s := l.waiting[0]
	l.waiting = l.waiting[1:]
	o := s.Options.KeyspaceOptions
	o.TTL, o.Versions = 0, brock.Retention{Manual: true}
	ks, err := l.db.Keyspace(string(s.Name), exactly(o))
	if err != nil {
		return err
	}
	l.spaces[ks.Name()] = ks
	l.made = append(l.made, madeKeyspace{ks, s.Options.KeyspaceOptions})
	return nil
}
