package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/brockdb/brock"
)

// Store holds the objects of a repository. Names are ASCII, with slashes. All methods may be
// called by any number of goroutines and processes.
type Store interface {
	// Put stores the size bytes of r under a name that no object has ever had. An object
	// becomes visible as a whole, or not at all; never if r returns an error. When Put
	// returns nil, the object is durable, and Get and List find it. After an error of the
	// store itself it may be there, too.
	Put(ctx context.Context, name string, r io.Reader, size int64) error
	// Get reads an object. It returns fs.ErrNotExist, at once or from the first Read, if
	// there is none.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List calls fn for each object whose name begins with prefix, in any order, and returns
	// the first error of fn. Objects that are put or deleted meanwhile may be listed or not.
	// A name that ends with ".part" is the remainder of a Put that was interrupted.
	List(ctx context.Context, prefix string, fn func(Object) error) error
}

// Deleter is a Store of which objects can be deleted, for Prune.
type Deleter interface {
	Store
	// Delete removes an object durably, and returns nil if there is none.
	Delete(ctx context.Context, name string) error
}

// Object describes an object.
type Object struct {
	Name string
	Size int64     // in bytes
	Time time.Time // when it was put, by the clock of the store: one clock for all objects
}

// progress is how many bytes are done.
type progress struct {
	done, total int64
	report      func(done, total int64) // may be nil
}

// add reports n more bytes.
func (p *progress) add(n int64) {
	p.done += n
	if p.report != nil {
		p.report(p.done, p.total)
	}
}

// ErrNoBackup says that the repository has no such backup.
var ErrNoBackup = errors.New("repository: no such backup")

// damagedObject returns an error that says what is wrong with an object.
func damagedObject(object string, cause error, format string, args ...any) *brock.CorruptionError {
	return &brock.CorruptionError{File: object, Offset: -1, Reason: fmt.Sprintf(format, args...), Err: cause}
}
