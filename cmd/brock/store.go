package main

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// store is the argument of most commands.
type store struct {
	Dir      string `arg:"" help:"Directory of the store."`
	ValueDir string `help:"Directory of the journal and the value segments, if the store has one of its own." placeholder:"DIR"`
	keyFlag
	recover bool // read a damaged store up to its damage
}

// readable is the argument of commands that write nothing.
type readable struct {
	store
	UpTo bool `name:"recover" help:"If the journal or MANIFEST is damaged, read what was committed before the damage."`
}

// read is store.read with the flag --recover.
func (r *readable) read(a *app, fn func(*brock.DB) error) error {
	s := r.store
	s.recover = r.UpTo
	return s.read(a, fn)
}

// read opens the store read-only for fn: nothing is written, and other readers
// may be at work. While another process writes the store, it is followed.
func (s *store) read(a *app, fn func(*brock.DB) error) error {
	o := brock.Options{Mode: brock.ReadOnly}
	if !s.recover {
		err := s.use(a, o, fn)
		if errors.Is(err, brock.ErrLocked) {
			return s.follow(a, err, fn)
		}
		return err
	}
	o.Recover = brock.UpTo
	return s.use(a, o, func(db *brock.DB) error {
		if loss := db.Loss(); loss != nil {
			fmt.Fprintln(a.err, "brock:", lossText(loss))
		}
		return fn(db)
	})
}

// following are the options of a follower. All entries that the writer has not flushed must fit in
// its memory, and the writer's limit is not known.
var following = brock.Options{Mode: brock.Follow, MemoryLimit: 64 << 30, Tuning: brock.Tuning{MemtableSize: 32 << 20}}

// follow opens a store that another process has open for writing. locked is the error that says so.
func (s *store) follow(a *app, locked error, fn func(*brock.DB) error) error {
	follows := false
	err := s.use(a, following, func(db *brock.DB) error {
		follows = true
		owner := "another process"
		var l *vfs.LockedError
		if errors.As(locked, &l) && l.Owner != "" {
			owner = l.Owner
		}
		fmt.Fprintf(a.err, "brock: %s is in use by %s: this is its version %d\n", s.Dir, owner, db.Version())
		return fn(db)
	})
	if errors.Is(err, brock.ErrUnsupported) && !follows {
		return locked
	}
	return err
}

// allVersions keeps the history of the default keyspace. Its options are not stored: only the
// program that uses the store knows what it wants to keep.
var allVersions = brock.KeyspaceOptions{Versions: brock.Retention{Age: math.MaxInt64}}

// exactly returns o with no zero field that would take its value from allVersions.
func exactly(o brock.KeyspaceOptions) brock.KeyspaceOptions {
	o.Versions.Versions = cmp.Or(o.Versions.Versions, 1) // a negative one is refused
	if o.Versions.Age == 0 {
		o.Versions.Age = -1 // 0 means the default
	}
	return o
}

// change opens a store that is there for fn, to write to it.
func (s *store) change(a *app, fn func(*brock.DB) error) error {
	return s.use(a, brock.Options{MustExist: true, KeyspaceDefaults: allVersions}, fn)
}

// copied opens a store for a command that makes a copy. It follows the store, also if no other
// process has it open: a program must be able to open its store while a copy is made.
func (s *store) copied(a *app, fn func(*brock.DB) error) error {
	follows := false
	err := s.use(a, following, func(db *brock.DB) error {
		follows = true
		return fn(db)
	})
	if follows || !errors.Is(err, brock.ErrUnsupported) {
		return err
	}
	err = s.use(a, brock.Options{Mode: brock.ReadOnly}, fn)
	if errors.Is(err, brock.ErrLocked) {
		return fmt.Errorf("%w; the program that has it open can copy it, by DB.Backup, DB.Checkpoint or module repository", err)
	}
	return err
}

// make opens the store for fn, and makes it if there is none. A store that it has made
// is removed again if fn fails and has written nothing.
func (s *store) make(a *app, fn func(*brock.DB) error) error {
	err := s.change(a, fn)
	if !errors.Is(err, brock.ErrNotExist) {
		return err
	}
	if err := s.usable(a.ctx); err != nil {
		return err
	}
	made := s.absent()
	empty := false
	err = s.use(a, brock.Options{MustBeNew: true}, func(db *brock.DB) error {
		err := fn(db)
		empty = db.Version() == 0
		return err
	})
	if err != nil && empty {
		err = errors.Join(err, s.remove(made))
	}
	return err
}

// absent lists the directories of the store, and those above them, that are not there
// yet, the deepest first.
func (s *store) absent() (dirs []string) {
	for _, dir := range []string{s.ValueDir, s.Dir} {
		for ; dir != ""; dir = filepath.Dir(dir) {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				break
			}
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// remove removes the files of a store that was made in vain, and the directories made
// for it. A directory that has anything else stays.
func (s *store) remove(made []string) (err error) {
	for _, dir := range []string{s.ValueDir, s.Dir} {
		if dir == "" {
			continue
		}
		entries, listed := os.ReadDir(dir)
		err = errors.Join(err, listed)
		for _, e := range entries {
			if _, ours := filename.Parse(e.Name()); ours {
				err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
			}
		}
	}
	for _, dir := range made {
		_ = os.Remove(dir) // fails if it holds something else
	}
	return err
}

func (s *store) use(a *app, o brock.Options, fn func(*brock.DB) error) error {
	o.Dir, o.ValueDir, o.Keys = s.Dir, s.ValueDir, s.provider()
	db, err := brock.OpenContext(a.ctx, o)
	if err != nil {
		return s.refused(err)
	}
	return errors.Join(fn(db), db.Close())
}

// refused explains an error of Open in the words of the command line.
func (s *store) refused(err error) error {
	super, unread := manifest.ReadSuper(vfs.OS(), s.Dir)
	switch {
	case errors.Is(err, brock.ErrNotExist), errors.Is(unread, brock.ErrForeign):
		return absentStore(s.Dir, err)
	case errors.Is(err, brock.ErrForeign) && errors.Is(unread, brock.ErrNotExist):
		return otherFiles{s.Dir, err}
	case errors.Is(err, brock.ErrKey) && s.KeyFile != "" && unread == nil && !super.Encrypted():
		return plain{s.Dir, err}
	case errors.Is(err, manifest.ErrElsewhere):
		return wrongUsage("%s has a directory for its values: name it by --value-dir", s.Dir)
	case errors.Is(err, brock.ErrCorrupt):
		return fmt.Errorf("%w; brock verify says what can be done", err)
	}
	return s.missing(s.Dir, err)
}

// noStore is brock.ErrNotExist with a text for users.
type noStore struct {
	dir   string
	there bool // the directory is
	error
}

// absentStore says that there is no store in a directory.
func absentStore(dir string, err error) error {
	info, missing := os.Stat(dir)
	return noStore{dir, missing == nil && info.IsDir(), err}
}

func (e noStore) Error() string {
	switch {
	case errors.Is(e.error, brock.ErrForeign):
		return e.dir + ": not a Brock store: another program has written its SUPER"
	case e.there:
		return e.dir + ": not a Brock store"
	}
	return "no store in " + e.dir
}
func (e noStore) Unwrap() error { return e.error }

// otherFiles is brock.ErrForeign for a directory that has files, and none of a store.
type otherFiles struct {
	dir string
	error
}

func (e otherFiles) Error() string {
	return e.dir + ": not a Brock store, and not empty, as a new one wants it"
}
func (e otherFiles) Unwrap() error { return e.error }

// encrypted is brock.ErrKey for a store or file that is encrypted, when no key file was named.
type encrypted struct {
	dir string
	error
}

func (e encrypted) Error() string {
	return e.dir + " is encrypted: name its key file by --key-file or BROCK_KEY_FILE"
}
func (e encrypted) Unwrap() error { return e.error }

// plain is brock.ErrKey for a plain store, when a key file was named.
type plain struct {
	dir string
	error
}

func (e plain) Error() string {
	return e.dir + " is not encrypted: leave --key-file and BROCK_KEY_FILE out, or use brock encrypt"
}
func (e plain) Unwrap() error { return e.error }

// keySyntax says how keys are written on the command line.
type keySyntax struct {
	Hex bool `help:"Keys on the command line are hexadecimal."`
}

func (k keySyntax) key(s string) ([]byte, error) {
	if !k.Hex {
		return []byte(s), nil
	}
	key, err := hex.DecodeString(s)
	if err != nil {
		return nil, wrongUsage("--hex: %q is not hexadecimal", s)
	}
	return key, nil
}

// writeJSON writes v indented.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeLine writes v as one line of JSON.
func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// bounds are the flags that say which keys a command works on.
type bounds struct {
	Prefix string `help:"Only keys that begin with this."`
	From   string `help:"Only keys from this one on."`
	To     string `help:"Only keys before this one."`
	keySyntax
}

// none reports whether the bounds leave all keys.
func (b *bounds) none() bool { return b.Prefix == "" && b.From == "" && b.To == "" }

// options returns the options of an iterator within the bounds.
func (b *bounds) options() (o brock.IteratorOptions, err error) {
	for _, bound := range []struct {
		text string
		key  *[]byte
	}{{b.Prefix, &o.Prefix}, {b.From, &o.Lower}, {b.To, &o.Upper}} {
		if bound.text == "" {
			continue
		}
		if *bound.key, err = b.key(bound.text); err != nil {
			return o, err
		}
	}
	return o, nil
}

// interval returns the bounds as one range; nil is no bound.
func (b *bounds) interval() (lower, upper []byte, err error) {
	o, err := b.options()
	if err != nil {
		return nil, nil, err
	}
	lower, upper = o.Lower, o.Upper
	if bytes.Compare(o.Prefix, lower) > 0 {
		lower = o.Prefix
	}
	// The first key behind a prefix is the prefix with its last byte one higher, without 0xff at
	// its end.
	after := bytes.TrimRight(o.Prefix, "\xff")
	if n := len(after); n > 0 {
		after = bytes.Clone(after)
		after[n-1]++
		if upper == nil || bytes.Compare(after, upper) < 0 {
			upper = after
		}
	}
	return lower, upper, nil
}

// storeDirs returns the directories of a store: dir, and valueDir if it is another one.
func storeDirs(dir, valueDir string) []string {
	if valueDir == "" || vfs.Same(vfs.OS(), dir, valueDir) {
		return []string{dir}
	}
	return []string{dir, valueDir}
}
