// Package trial puts a store through its whole life: it is loaded, read back,
// scanned, updated by many at once, killed while it writes, recovered and
// verified, and each answer is compared with what is known to be true.
package trial

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
	"github.com/brockdb/brock/cmd/brock/internal/progress"
)

// ErrWrong is a store that does not give back what was put into it.
var ErrWrong = errors.New("the store is wrong")

// reserved begins the keys that the trial adds to the ones of the source.
const reserved = "\xffbrock-try/"

// Config says what is tried.
type Config struct {
	Source   pairs.Source
	Dir      string                                             // an empty directory, for the store
	Seed     uint64                                             // of everything random
	Rounds   int                                                // how often a writer is killed
	Updates  time.Duration                                      // how long the step of updates takes
	Writer   func(dir string, round int, seed uint64) *exec.Cmd // a process that calls Write
	Progress *progress.Output
	Done     func(Step) // called after each step
}

// trial is a Run under way.
type trial struct {
	Config
	ctx     context.Context
	db      *brock.DB
	records []record // what the source holds, in order of the keys
	bytes   int64    // of their keys and values
	hash    maphash.Seed
}

// record is what is known of a pair of the source.
type record struct {
	key  []byte
	at   pairs.Place
	size int
	hash uint64 // of the value
}

// Run takes the store through all steps, or up to the first that fails. The
// error says why that was; the report is there in any case.
func Run(ctx context.Context, c Config) (*Report, error) {
	t := &trial{Config: c, ctx: ctx, hash: maphash.MakeSeed()}
	r := &Report{Dir: c.Dir, Seed: c.Seed}
	begin := time.Now()
	err := t.steps(r)
	if t.db != nil {
		err = errors.Join(err, t.db.Close())
	}
	r.Took = time.Since(begin)
	r.Passed = err == nil
	return r, err
}

func (t *trial) steps(r *Report) error {
	for _, s := range []struct {
		name string
		run  func() (fmt.Stringer, error)
	}{
		{"load", t.load},
		{"read", t.read},
		{"scan", t.scan},
		{"update", t.update},
		{"reopen", t.reopen},
		{"kill -9", t.kill},
		{"verify", t.verify},
		{"size", t.size},
	} {
		begin := time.Now()
		result, err := s.run()
		step := Step{Name: s.name, Took: time.Since(begin), Result: result}
		if err != nil {
			step.Result, step.Error = nil, err.Error()
		}
		r.Steps = append(r.Steps, step)
		t.Done(step)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// open opens the store and says how long that took.
func (t *trial) open(mode brock.OpenMode) (took time.Duration, err error) {
	begin := time.Now()
	t.db, err = brock.OpenContext(t.ctx, brock.Options{Dir: t.Dir, Mode: mode})
	return time.Since(begin), err
}

func (t *trial) close() error {
	db := t.db
	t.db = nil
	return db.Close()
}

// files returns the files of the store, with the attributes that a writer would change.
func (t *trial) files() (map[string]string, int64, error) {
	entries, err := os.ReadDir(t.Dir)
	if err != nil {
		return nil, 0, err
	}
	files, total := make(map[string]string), int64(0)
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(t.Dir, e.Name()))
		if err != nil {
			return nil, 0, err
		}
		files[e.Name()] = fmt.Sprintf("%d bytes of %v", info.Size(), info.ModTime())
		total += info.Size()
	}
	return files, total, nil
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrWrong, fmt.Sprintf(format, args...))
}
