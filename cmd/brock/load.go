package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
	"github.com/brockdb/brock/cmd/brock/internal/progress"
)

// inputFlags say how a file of pairs is read.
type inputFlags struct {
	Format pairs.Format `enum:",jsonl,csv,tsv" default:"" placeholder:"FORMAT" help:"jsonl, csv or tsv; default: as the file's name says, jsonl for standard input."`
	Key    string       `help:"The field of JSON objects, or the column of a table, that is the key; the object, or the row as one, is the value." placeholder:"FIELD"`
	Header bool         `help:"The first line of a table names its columns. Detected automatically if they are key and value."`
}

func (f *inputFlags) form() pairs.Form {
	return pairs.Form{Format: f.Format, Key: f.Key, Header: f.Header}
}

type loadCommand struct {
	store
	keyspaceFlag
	Path string `arg:"" help:"A .jsonl, .csv or .tsv file, a directory, or - for standard input. Tables have the columns key and value, or keys in their first column. Of a directory, paths become keys and contents values. A dump or an export of all keyspaces creates those that are missing."`
	inputFlags
	Sorted  bool `help:"The keys come in rising order of their bytes, each once, as in a dump. Faster, and atomic: all pairs of a keyspace are stored, or none."`
	History bool `help:"The lines are of export --history: each version becomes a commit with its number. The store must be new. History of the default keyspace stays only while the store is opened with KeyspaceDefaults.Versions."`
}

// commitEvery is how long a pair that has come waits for its commit at most. A pipe may be slow.
const commitEvery = time.Second

// Run writes the pairs in groups. If a line is wrong, or the command is interrupted, the pairs before
// that are stored; of a sorted load, only those of keyspaces that were complete.
func (c *loadCommand) Run(a *app) error {
	source, err := c.source(a)
	if err != nil {
		return err
	}
	defer source.Close()
	if c.History {
		return c.loadHistory(a, source)
	}
	l := loading{Source: source, app: a, work: a.progress.Start("load", source.Bytes()), into: c.Keyspace, sorted: c.Sorted}
	partly := false
	err = c.make(a, func(db *brock.DB) error {
		ks, err := c.find(db)
		if err != nil {
			return err
		}
		before := db.Version()
		err = l.run(db, ks)
		partly = l.lost && db.Version() != before
		return err
	})
	l.work.End()
	switch {
	case errors.Is(err, pairs.ErrInput):
		return fmt.Errorf("%w; %s stored before it", err, human.Things(l.stored, "pair"))
	case partly:
		fmt.Fprintf(a.err, "some of the pairs are stored; another load of all writes the same pairs again\n")
	case err != nil && l.stored > 0 && !l.lost:
		fmt.Fprintf(a.err, "%s stored; the rest is not\n", human.Things(l.stored, "pair"))
	}
	if err != nil {
		return err
	}
	if source.Headerless() {
		fmt.Fprintf(a.err, "the first line was stored as a pair, too; --header says that it names columns\n")
	}
	fmt.Fprintf(a.err, "%s stored\n", human.Things(l.stored, "pair"))
	return nil
}

// loadHistory loads what export --history has written.
func (c *loadCommand) loadHistory(a *app, source pairs.Source) error {
	if c.Keyspace != "" || c.Sorted || c.Key != "" {
		return wrongUsage("--history goes with no --keyspace, --sorted or --key")
	}
	l := historyLoad{Source: source, app: a, work: a.progress.Start("load", source.Bytes())}
	err := c.make(a, l.run)
	l.work.End()
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "%s stored\n", human.Things(l.stored, "version"))
	return nil
}

// source opens what is to be loaded.
func (c *loadCommand) source(a *app) (pairs.Source, error) {
	if c.Path == "-" {
		return pairs.Stream(a.in, c.form(), "standard input"), nil
	}
	return pairs.Open(c.Path, c.form())
}

// loading is a load under way.
type loading struct {
	pairs.Source
	*app
	work   *progress.Work
	into   string // the keyspace that the user named
	part   string // the keyspace of the section; "" = the default one
	at     string // the keyspace that pairs go to now
	db     *brock.DB
	made   []madeKeyspace
	sorted bool // --sorted
	stored int64
	lost   bool // a write has failed: pairs that were counted may not be stored

	loader *brock.Loader // of a sorted load
	loaded int64         // pairs that it has, which count as stored when it has finished

	mu sync.Mutex // guards:
	w  *brock.Writer
}

// madeKeyspace is a keyspace that was made for the load, without its time to live: pairs
// that have none must not get one.
type madeKeyspace struct {
	*brock.Keyspace
	options brock.KeyspaceOptions
}

func (l *loading) run(db *brock.DB, ks *brock.Keyspace) error {
	l.db = db
	if ks == nil {
		ks = db.Default()
	}
	l.part, l.at = l.into, l.into
	if err := l.openKeyspace(ks); err != nil {
		return err
	}
	stop := l.commitNowAndThen()
	err := l.Each(l.add)
	stop()
	if l.loader != nil && err != nil {
		l.loader.Abort()
	} else {
		err = errors.Join(err, l.finish())
	}
	for _, m := range l.made {
		err = errors.Join(err, m.SetOptions(exactly(m.options)))
	}
	return err
}

// openKeyspace makes the next pairs go to a keyspace.
func (l *loading) openKeyspace(ks *brock.Keyspace) (err error) {
	if l.sorted {
		l.loader, err = ks.NewLoader(l.ctx, brock.LoadOptions{Sorted: true})
		return err
	}
	// An interrupt ends the reading, and what was read is committed.
	l.w = ks.NewWriter(context.WithoutCancel(l.ctx))
	return nil
}

// finish stores what has come for the keyspace. It may be called again.
func (l *loading) finish() (err error) {
	if w := l.w; w != nil {
		l.w = nil
		err = w.Close()
		l.lost = l.lost || err != nil
	}
	if loader := l.loader; loader != nil {
		l.loader = nil
		if _, err = loader.Finish(); err == nil {
			l.stored += l.loaded
		}
		l.loaded = 0
	}
	return err
}

// commitNowAndThen commits what has come, also while the next pair is waited for, until stop is
// called. The next write returns its errors.
func (l *loading) commitNowAndThen() (stop func()) {
	end := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(commitEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				l.mu.Lock()
				if l.w != nil {
					_ = l.w.Flush()
				}
				l.mu.Unlock()
			}
		}
	})
	return func() {
		close(end)
		wait.Wait()
	}
}

// add stores a pair, or begins a section.
func (l *loading) add(p pairs.Pair, at pairs.Place) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Section != nil {
		if err := l.begin(p.Section, at); err != nil {
			return refused(err, at)
		}
		l.part = l.at
		return nil
	}
	if p.Deleted {
		return at.Refuse("a delete is no pair: load the file with --history")
	}
	name := l.part
	if p.Keyspace != nil {
		name = *p.Keyspace
	}
	if name != l.at {
		// A line that names another keyspace than the one before is rare where speed counts: an
		// export has them in order.
		if err := l.begin(&pairs.Section{Name: []byte(name)}, at); err != nil {
			return refused(err, at)
		}
	}
	var err error
	count := &l.stored
	if l.loader != nil {
		count = &l.loaded
		err = l.loader.SetEntry(p.Entry())
	} else {
		err = l.w.SetEntry(p.Entry())
	}
	switch {
	case err == nil:
		l.work.Add(at.Size)
		*count++
	case !errors.Is(err, brock.ErrInvalid):
		l.lost = true
	}
	return refused(err, at)
}

// refused returns an error of the input for one of the store that says that the input is wrong.
func refused(err error, at pairs.Place) error {
	if errors.Is(err, brock.ErrInvalid) {
		return at.Refuse(message(err))
	}
	return err
}

// begin begins a section: the next pairs go to its keyspace, which is made if it does not exist.
func (l *loading) begin(s *pairs.Section, at pairs.Place) error {
	name := string(s.Name)
	if l.into != "" {
		return at.Refuse(fmt.Sprintf("pairs of keyspace %q follow: load the file without --keyspace", name))
	}
	if err := l.finish(); err != nil {
		return err
	}
	ks, err := findKeyspace(l.db, name)
	if name == "" {
		ks, err = l.db.Default(), nil
	}
	if err != nil {
		o := s.Options.KeyspaceOptions
		o.TTL = 0
		if ks, err = l.db.Keyspace(name, exactly(o)); err != nil {
			return err
		}
		if s.Options.TTL != 0 {
			l.made = append(l.made, madeKeyspace{ks, s.Options.KeyspaceOptions})
		}
	}
	l.at = name
	return l.openKeyspace(ks)
}
