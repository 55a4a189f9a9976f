package importers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/brockdb/brock"
)

// WorkSuffix is added to the directory of a store for the directory of an import that is not
// finished. Who removes that directory must remove the store, too.
const WorkSuffix = ".import"

// work is the directory of an import: a lock, what is imported, and files that are needed meanwhile.
type work struct {
	dir     string
	resumed bool // it was there
	release func()
}

// plan is what an unfinished import notes of itself: only the same import may go on.
type plan struct {
	Peer     Peer   `json:"peer"`
	Source   string `json:"source"`
	History  bool   `json:"history"`
	Keyspace []byte `json:"keyspace,omitempty"`
	State    string `json:"state"` // a checksum of the names, sizes and times of the source's files
}

const planFile = "plan.json"

// staged is where the stand-in for the source is.
func (w *work) staged() string { return filepath.Join(w.dir, "source") }

// beginWork makes the directory, or finds that of an unfinished import of the same source. Else the
// store must be empty, or not exist.
func beginWork(o *Options) (_ *work, err error) {
	p, err := planOf(o)
	if err != nil {
		return nil, err
	}
	w := &work{dir: filepath.Clean(o.Store.Dir) + WorkSuffix}
	if err := os.Mkdir(w.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if w.release, err = lockPath(w.dir, true); err != nil {
		return nil, err
	}
	if err := w.claim(o, p); err != nil {
		w.release()
		if !w.resumed {
			_ = os.Remove(w.dir) // unless there is something in it
		}
		return nil, err
	}
	return w, nil
}

// claim compares the plan with the one that is noted, or notes it.
func (w *work) claim(o *Options, p *plan) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	path := filepath.Join(w.dir, planFile)
	noted, err := os.ReadFile(path)
	switch {
	case err == nil && bytes.Equal(noted, text):
		w.resumed = true
		return nil
	case err == nil:
		w.resumed = true
		return fmt.Errorf("%s has an unfinished import of another source, of another kind, or of a source that has changed since: %w; remove %s and %s to begin anew", o.Store.Dir, ErrNotEmpty, o.Store.Dir, w.dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if o.Keyspace != "" {
		if err := checkKeyspace(o); !errors.Is(err, brock.ErrNotExist) {
			if err == nil {
				err = writeSynced(path, text)
			}
			return err
		}
	}
	for _, dir := range []string{o.Store.Dir, o.Store.ValueDir} {
		entries, err := os.ReadDir(dir)
		if len(entries) > 0 {
			return fmt.Errorf("%s %w, and no unfinished import", dir, ErrNotEmpty)
		}
		if dir != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return writeSynced(path, text)
}

// checkKeyspace returns nil if there is a store, and nothing in the keyspace; ErrNotExist without a store.
func checkKeyspace(o *Options) (err error) {
	s := o.storeOptions()
	s.Mode, s.MustExist = brock.ReadOnly, true
	db, err := brock.Open(s)
	if err != nil {
		return err
	}
	defer cleanup(&err, db.Close)
	for ks := range db.Keyspaces() {
		if ks.Name() != o.Keyspace {
			continue
		}
		err := ks.View(func(txn *brock.Txn) error { _, err := txn.First(nil, nil); return err })
		if !errors.Is(err, brock.ErrKeyNotFound) {
			return errors.Join(fmt.Errorf("keyspace %.300q of %s %w, and has no unfinished import", o.Keyspace, o.Store.Dir, ErrNotEmpty), err)
		}
	}
	return nil
}

// writeSynced writes a file whole or not at all.
func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable, where the system can do that.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = f.Sync() // not on Windows
	return f.Close()
}

// planOf returns the plan of an import.
func planOf(o *Options) (*plan, error) {
	path, err := filepath.Abs(o.Source)
	if err != nil {
		return nil, err
	}
	files, err := o.sourceFiles()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(sum, "%q %d %d\n", file, info.Size(), info.ModTime().UnixNano())
	}
	return &plan{o.Peer, path, o.History, []byte(o.Keyspace), hex.EncodeToString(sum.Sum(nil))}, nil
}

// end removes the directory, with all that is in it.
func (w *work) end() error {
	// The plan goes last: until then the import is unfinished, and can be gone on with.
	entries, err := os.ReadDir(w.dir)
	for _, e := range entries {
		if e.Name() != planFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(w.dir, e.Name())))
		}
	}
	if err == nil {
		err = os.RemoveAll(w.dir)
	}
	return err
}
