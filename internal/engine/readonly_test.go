package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/vfs"
)

// A read-only tree reads what a crash left, and changes no file.
func TestReadOnlyChangesNothing(t *testing.T) {
	mem := vfs.NewMem()
	s := newStore(t, mem, nil)
	fill(s)
	want := names(t, mem)
	fs := newCounting(mem.CrashClone(vfs.CrashOptions{Mode: vfs.All}))
	s.close()

	fs.onCreate = func(name string) { t.Errorf("%s is created", name) }
	s.fs, s.cfg.ReadOnly = fs, true
	s.mustOpen()
	p := s.pin(0)
	if value, version, _ := s.lookup(p, "d"); version != 12 || shown("d", value) != "@410" {
		t.Errorf("d is %s of version %d", shown("d", value), version)
	}
	if err := s.engine.Work.Flush(context.Background()); !errors.Is(err, errs.ErrReadOnly) {
		t.Errorf("flush: %v", err)
	}
	if problems := s.check(); problems != "" {
		t.Error(problems)
	}
	s.close()
	if value, _, _ := s.lookup(p, "a"); shown("a", value) != "@410" {
		t.Errorf("after Close, a is %s", shown("a", value))
	}
	p.Release()
	fs.checkClosed(t)
	if got := names(t, fs); got != want {
		t.Errorf("files are %s, were %s", got, want)
	}
}
