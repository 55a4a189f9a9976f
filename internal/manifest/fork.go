package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/layout"
)

// A store that was opened up to damage, and will be written to, gets a new manifest. SUPER
// names that once the store no longer needs the damaged files. A crash before that leaves the
// store as it was, and files that nothing names.

// mostForks is how many manifests a crash may leave, each of a try that was not finished.
const mostForks = 1000

// Fork stands for Mend: it begins a new manifest with the layout, to which edits are
// appended from now on. Adopt makes it the store's.
func (l *Log) Fork(begin *layout.Layout) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.super.Manifest
	err := fs.ErrExist
	for num := old + 1; errors.Is(err, fs.ErrExist) && num <= old+mostForks; num++ {
		if l.file, l.enc, l.end, err = writeManifest(l.o, &l.super, num, old, begin, l.ring); err == nil {
			l.forked, l.super.Manifest, l.layout = old, num, begin
			l.limit = max(l.o.FileBytes, 2*l.end.Offset)
			return nil
		}
	}
	l.file = nil
	return fmt.Errorf("begin a new manifest: %w", err)
}

// Adopt makes the new manifest the store's. It calls keep, which copies the old manifest, then
// removes that. After an error nothing is appended any more.
func (l *Log) Adopt(keep func(path string) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writableLocked(); err != nil {
		return err
	}
	old := l.forked
	err := keep(filepath.Join(l.o.Dir, filename.Of(filename.Manifest, old)))
	if err == nil {
		l.forked = 0
		err = l.takeLocked(2)
	}
	if err != nil {
		l.forked = old
		return l.stopLocked(err)
	}
	return nil
}
