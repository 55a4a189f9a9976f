package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/txn/scan"
	"github.com/brockdb/brock/internal/txn/spill"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/report"
	"github.com/brockdb/brock/vfs"
)

// store is a tree with a minimal committer, stepped by the test: its pool runs
// nothing by itself unless busy.
type store struct {
	t       testing.TB
	fs      vfs.FS
	cfg     Config
	busy    bool // background work runs by itself
	clock   int64
	last    entry.Version
	log     *manifest.Log
	engine  *Engine
	rec     Recovery
	failure error // what OnFailure was told
}

var testUUID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func newStore(t testing.TB, fs vfs.FS, change func(*store)) *store {
	t.Helper()
	s := &store{t: t, fs: fs, clock: 1000, cfg: Config{
		OpenerConfig: view.OpenerConfig{Store: filename.Store{Dir: "/s", ValueDir: "/s"}, RunFileBytes: 1 << 20},
		Sizes:        Sizes{MemtableBytes: 1 << 20, JournalBytes: 64 << 20, SegmentBytes: 32 << 20},
		Maintenance:  Maintenance{IdleAfter: time.Hour},
		Events: Events{
			OnWork: func(Work) {}, OnStall: func(report.Stall) {}, OnSpace: func(report.DiskSpace) {},
			OnDamage: func(*errs.Corruption) {}, OnLongReader: func(report.Reader) {},
		},
	}}
	if change != nil {
		change(s)
	}
	if err := manifest.MakeDirs(manifest.Options{FS: fs, Dir: "/s"}); err != nil {
		t.Fatal(err)
	}
	if err := manifest.MakeDirs(manifest.Options{FS: fs, Dir: "/s"}); err != nil {
		t.Fatal(err)
	}
	log, err := manifest.CreateStore(manifest.Options{FS: fs, Dir: "/s"}, manifest.CreateOptions{UUID: testUUID, Seed: 99, Created: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	s.mustOpen()
	return s
}

func (s *store) mustOpen() {
	s.t.Helper()
	if err := s.open(); err != nil {
		s.t.Fatalf("open: %v", err)
	}
}

func (s *store) open() error {
	log, err := manifest.Open(manifest.Options{FS: s.fs, Dir: "/s", ReadOnly: s.cfg.ReadOnly})
	if err != nil {
		return err
	}
	super := log.Super()
	c := s.cfg
	c.FS, c.UUID, c.Seed = s.fs, super.UUID, super.Seed
	c.Jobs = jobs.New(jobs.Options{Manual: !s.busy})
	c.Now = func() time.Time { return time.UnixMilli(s.clock) }
	c.PastDeletes = scan.PastDeletes
	if c.Exclusive == nil {
		c.Exclusive = func(_ context.Context, fn func() error) error { return fn() }
	}
	c.OnFailure = func(err error) { s.failure = err }
	t, rec, err := Open(c, log)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	s.log, s.engine, s.rec, s.last = log, t, rec, t.Views.Visible()
	if !c.ReadOnly {
		t.Start()
	}
	return nil
}

// op is one write; the value of a range delete is its upper bound. A value of at least 64 bytes has
// its own checksum, or any if so wanted.
type op struct {
	key     string
	value   []byte
	kind    entry.Kind
	expires uint64
	own     bool
}

const testThreshold = 64

// commit writes ops as one transaction, in the place of a commit leader.
func (s *store) commit(sync bool, ops ...op) error {
	v := s.last + 1
	var payload []byte
	ranges := 0
	for _, o := range ops {
		if o.kind == entry.RangeDelete {
			ranges++
		}
		e := entry.Entry{Key: []byte(o.key), Value: o.value, Kind: o.kind, Expires: o.expires}
		payload = entry.AppendRecord(payload, &e, o.own || o.kind != entry.Delete && o.kind != entry.RangeDelete && len(o.value) >= testThreshold)
	}
	payload = entry.PadRecords(payload)
	if err := s.engine.Commits.Prepare([][]byte{payload}, len(ops), ranges); err != nil {
		return err
	}
	at, err := s.engine.unflushed.journal.Append(v-1, []entry.Version{v}, [][]byte{payload})
	if err != nil {
		return err
	}
	s.last = v
	if sync {
		if err := s.engine.unflushed.journal.Sync(); err != nil {
			return err
		}
	}
	if _, err := s.engine.Commits.Apply(payload, at, v); err != nil {
		return err
	}
	s.engine.Commits.Publish(v)
	return nil
}

func set(key string, value []byte) op { return op{key: key, value: value, kind: entry.Set} }

func delRange(lo, hi string) op { return op{key: lo, value: []byte(hi), kind: entry.RangeDelete} }

func del(key string) op { return op{key: key, kind: entry.Delete} }

// bulk is a value of n bytes that tells what it is of.
func bulk(key string, n int) []byte {
	return bytes.Repeat([]byte(key+"."), n/(len(key)+1)+1)[:n]
}

// shown is a value as a test prints it.
func shown(key string, value []byte) string {
	switch {
	case len(value) <= 32:
		return string(value)
	case bytes.Equal(value, bulk(key, len(value))):
		return fmt.Sprintf("@%d", len(value))
	}
	return fmt.Sprintf("@%d of something else", len(value))
}

func (s *store) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *store) seal() {
	s.t.Helper()
	s.must(s.engine.Work.writer.sealAny())
}

func (s *store) flush() {
	s.t.Helper()
	s.seal()
	s.must(s.engine.Work.flusher.flushSealed(context.Background()))
}

func (s *store) close() {
	s.t.Helper()
	s.must(s.engine.Close())
}

func (s *store) pin(at entry.Version) *view.Pin {
	s.t.Helper()
	p, err := s.engine.Views.Acquire(at)
	s.must(err)
	return p
}

// hashOf is the hash of key in the tree.
func hashOf(t *Engine, key string) uint64 { return checksum.HashKey(t.cfg.Seed, []byte(key)) }

// valueOf reads the value of e, which p has found under key.
func valueOf(p *view.Pin, key []byte, e *entry.Entry) ([]byte, error) {
	if !e.Separated {
		return e.Value, nil
	}
	value, _, err := p.ReadValue(key, e, nil, true)
	return value, err
}

// lookup is what p finds under key.
func (s *store) lookup(p *view.Pin, key string) (value []byte, version entry.Version, found bool) {
	s.t.Helper()
	var e entry.Entry
	found, err := p.Get([]byte(key), hashOf(s.engine, key), &e)
	s.must(err)
	if !found || !e.Live(uint64(s.clock)) {
		return nil, 0, false
	}
	value, err = valueOf(p, []byte(key), &e)
	s.must(err)
	return value, e.Version, true
}

// check verifies everything there is to verify.
func (s *store) check() string {
	s.t.Helper()
	var out strings.Builder
	err := s.engine.Verify(context.Background(), func(c *errs.Corruption) { fmt.Fprintln(&out, c) })
	s.must(err)
	layout := s.engine.views.Current().Layout
	for _, seg := range layout.Segments() {
		if n := layout.Unaccounted(seg.Num); n != 0 {
			fmt.Fprintf(&out, "segment %d: %d records are unaccounted for\n", seg.Num, int64(n))
		}
	}
	if s.failure != nil {
		fmt.Fprintln(&out, "background work has ended:", s.failure)
	}
	return out.String()
}

// newSpill begins a transaction larger than its memory.
func (s *store) newSpill() *spill.Spill {
	e := s.engine
	return spill.Begin(spill.Config{Files: e.Files, SegmentBytes: s.cfg.SegmentBytes, Coder: e.Views.Coder}, e.Spills, e.Views, e.cfg.Seed)
}

// compactPlanned compacts what policy plans.
func (s *store) compactPlanned(o occasion) {
	s.t.Helper()
	_, err := s.engine.Work.compactor.compactPlanned(context.Background(), o)
	s.must(err)
}
