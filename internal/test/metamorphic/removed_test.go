package metamorphic

import (
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
)

// lives are what stores do until they are killed. Each ends with a durable commit or
// sync, so the loss of any segment of the journal must be an error.
var lives = []struct {
	name string
	run  func(s *session)
}{
	{"one synced commit", func(s *session) { s.commit(synced, put(key(1), "x")) }},
	{"a sync after others", func(s *session) {
		for i := range 4 {
			s.commit(buffered, put(key(i), text(key(i), 1, 100)))
		}
		s.sync()
		s.commit(buffered, put(key(1), "never asked for"))
	}},
	{"several segments", func(s *session) {
		for i := range 12 {
			d := buffered
			if i%3 == 0 {
				d = synced
			}
			s.commit(d, put(key(i), text(key(i), 1, 20_000)))
		}
		s.commit(synced, put(key(1), "x"))
	}},
	{"several segments, and one sync", func(s *session) {
		for i := range 10 {
			s.commit(buffered, put(key(i), text(key(i), 1, 20_000)))
		}
		s.sync()
	}},
	{"runs below", func(s *session) {
		for i := range 8 {
			s.commit(buffered, put(key(i), text(key(i), 1, 20_000)))
		}
		s.flush()
		s.commit(synced, put(key(1), "x"))
		s.reopen()
		s.commit(synced, put(key(2), "x"))
		s.commit(buffered, put(key(3), "x"))
		s.sync()
	}},
	{"killed before, unsynced", func(s *session) {
		s.commit(buffered, put(key(1), "x"))
		s.kill(vfs.All)
	}},
	{"killed before, then a sync", func(s *session) {
		for i := range 6 {
			s.commit(buffered, put(key(i), text(key(i), 1, 20_000)))
		}
		s.kill(vfs.All)
		s.sync()
	}},
	{"power lost before", func(s *session) {
		for i := range 6 {
			s.commit(synced, put(key(i), text(key(i), 1, 20_000)))
			s.commit(buffered, put(key(i), "torn"))
		}
		s.kill(vfs.Prefix)
		s.commit(synced, put(key(1), "x"))
	}},
	{"a large transaction", func(s *session) {
		s.commit(synced, put(key(1), "x"))
		s.spill(1<<10, put(key(2), text(key(2), 1, 20_000)), put(key(3), text(key(3), 1, 20_000)))
		s.commit(synced, put(key(4), "x"))
	}},
}

// kill crashes the store and goes on with what the crash leaves.
func (s *session) kill(mode vfs.CrashMode) {
	mem := s.o.FS.(*vfs.Mem).CrashClone(vfs.CrashOptions{Mode: mode, Seed: 7})
	must(s.t, "close", s.db.Close())
	s.db, s.o.FS = nil, mem
	s.open()
}

// If a journal segment of a killed store is missing, Open returns an error with its
// name.
func TestRemovedSegmentIsMissed(t *testing.T) {
	for _, life := range lives {
		t.Run(life.name, func(t *testing.T) {
			s := newSession(t, vfs.NewMem(), brock.Options{Tuning: small})
			s.open()
			life.run(s)
			// Background work may remove some of them.
			mem := s.o.FS.(*vfs.Mem).CrashClone(vfs.CrashOptions{Mode: vfs.All})
			s.close()
			segments := 0
			for _, name := range list(t, mem) {
				if path.Ext(name) != ".log" || !needed(t, s.o, mem, name) {
					continue
				}
				segments++
				for _, mode := range []brock.OpenMode{brock.ReadOnly, brock.ReadWrite} {
					o := s.o
					m := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
					must(t, "remove", m.Remove(path.Join("db", name)))
					o.FS, o.Mode = m, mode
					db, err := brock.Open(o)
					if err == nil {
						t.Errorf("opened without %s, up to version %d", name, db.Version())
						_ = db.Close()
						continue
					}
					var c *brock.CorruptionError
					if !errors.As(err, &c) || c.File != name {
						t.Errorf("without %s: %v", name, err)
					}
				}
			}
			if segments == 0 {
				t.Error("no segment is needed")
			}
		})
	}
}

// needed reports whether Open keeps the file. A flush that was under way may have
// left a file that Open removes.
func needed(t *testing.T, o brock.Options, mem *vfs.Mem, name string) bool {
	m := mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	o.FS = m
	db, err := brock.Open(o)
	must(t, "open", err)
	_, err = m.Stat(path.Join("db", name))
	must(t, "close", db.Close())
	return err == nil
}

// If the disk is too full to register a new segment in the manifest, the commit
// fails with ErrNoSpace and nothing of it is ever seen. Sync fails, too.
func TestSegmentThatCannotBeRecorded(t *testing.T) {
	for _, before := range []int{0, 3} { // buffered commits in the segment
		t.Run(fmt.Sprint(before), func(t *testing.T) {
			mem := vfs.NewMem()
			fs := faultfs.New(mem, faultfs.Options{})
			s := newSession(t, fs, brock.Options{Tuning: small})
			s.open()
			for i := range before {
				s.commit(buffered, put(key(i), "x"))
			}
			fs.Inject(faultfs.Fault{Kinds: faultfs.Write, Path: "MANIFEST-000001", Times: faultfs.Always, Err: faultfs.ErrNoSpace, Short: true})
			refused := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped) {
					t.Errorf("%s: %v", what, err)
				}
			}
			for range 3 {
				if before > 0 {
					refused("sync", s.db.Sync(t.Context()))
				}
				refused("set", s.db.Set([]byte("refused"), []byte("x")))
				if _, err := s.db.Get([]byte("refused")); !errors.Is(err, brock.ErrKeyNotFound) {
					t.Errorf("get: %v", err)
				}
				must(t, "verify", s.db.Verify(t.Context(), nil))
			}
			if m := s.db.Metrics(); m.Tree.Refused == 0 {
				t.Error("nothing was counted as refused")
			}
			if before > 0 { // else the session is not recorded yet, and may begin no segment
				s.commit(buffered, put("later", "x")) // needs no registered segment
			}
			compare := func(what string, db *brock.DB) {
				t.Helper()
				got, err := dump(db)
				must(t, what, err)
				if d := differ(got, s.ledger.state(s.ledger.promise().acked, s.ledger.promise().now)); d != "" {
					t.Errorf("%s: %s", what, d)
				}
			}
			compare("full", s.db)
			reopened := func(what string, mode vfs.CrashMode) {
				t.Helper()
				o := s.o
				o.FS = mem.CrashClone(vfs.CrashOptions{Mode: mode})
				db, err := brock.Open(o)
				must(t, what, err)
				compare(what, db)
				must(t, "close", db.Close())
			}
			reopened("killed", vfs.All)
			fs.Heal()
			s.sync()
			reopened("power lost after a sync", vfs.Lost)
			s.commit(synced, put(key(9), "y"))
			reopened("power lost after a commit", vfs.Lost)
			s.close()
			reopened("closed", vfs.Lost)
		})
	}
}

// To register a segment costs one edit a segment, none a commit, and none in an empty store. A
// session that writes costs one more.
func TestOneEditForASegment(t *testing.T) {
	mem := vfs.NewMem()
	fs := faultfs.New(mem, faultfs.Options{})
	s := newSession(t, fs, brock.Options{})
	edits := func() int { return fs.Count(faultfs.Write, "MANIFEST-000001") }
	s.open()
	empty := edits()
	s.sync()
	if edits() != empty {
		t.Error("an empty store records something when it is synced")
	}
	for i := range 50 {
		s.commit(synced, put(key(i), "x"))
	}
	s.sync()
	if n := edits() - empty; n != 2 { // the first one tells of the session
		t.Errorf("%d edits for one session with one segment", n)
	}
	s.close()
	closed := edits()
	s.open()
	s.sync()
	if n := edits() - closed; n != 1 { // the last edit is written again
		t.Errorf("%d writes to the manifest by an Open after Close", n)
	}
	s.close()
}

// If the disk is too full for Open to record what it has replayed, Sync fails until
// it is recorded.
func TestReplayedSegmentThatCannotBeRecorded(t *testing.T) {
	mem := vfs.NewMem()
	s := newSession(t, mem, brock.Options{Tuning: small})
	s.open()
	s.commit(buffered, put(key(1), "x"))
	mem = mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	s.close()
	fs := faultfs.New(mem, faultfs.Options{})
	// The second write: the first one writes the last edit again.
	fs.Inject(faultfs.Fault{Kinds: faultfs.Write, Path: "MANIFEST-000001", Nth: 2, Times: faultfs.Always, Err: faultfs.ErrNoSpace})
	s.o.FS = fs
	s.open()
	if err := s.db.Sync(t.Context()); !errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped) {
		t.Errorf("sync: %v", err)
	}
	fs.Heal()
	must(t, "sync", s.db.Sync(t.Context()))
	o := s.o
	killed := mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
	must(t, "remove", killed.Remove("db/000001.log"))
	o.FS = killed
	var c *brock.CorruptionError
	if !errors.As(openError(o), &c) || c.File != "000001.log" {
		t.Errorf("opened without the segment: %v", openError(o))
	}
	s.close()
}

func openError(o brock.Options) error {
	db, err := brock.Open(o)
	if err == nil {
		err = db.Close()
	}
	return err
}

// Some edits fail, of leaders and of flushes, while several clients write, sync and
// verify. Each client sees its own last acknowledged commit, and so does an Open
// after a loss of power.
func TestRefusedEditsUnderLoad(t *testing.T) {
	mem := vfs.NewMem()
	fs := faultfs.New(mem, faultfs.Options{})
	s := newSession(t, fs, brock.Options{Tuning: small})
	s.o.Events.BackgroundError = func(err error) { t.Errorf("background work has ended: %v", err) }
	s.open()
	end := make(chan struct{})
	var faults sync.WaitGroup
	faults.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			if fs.Heal(); i%3 != 0 {
				fs.Inject(faultfs.Fault{Kinds: faultfs.Write, Path: "MANIFEST", Times: faultfs.Always, Err: faultfs.ErrNoSpace, Short: i%2 == 0})
			}
		}
	})
	passes := func(what string, err error) bool {
		if err != nil && (!errors.Is(err, brock.ErrNoSpace) || errors.Is(err, brock.ErrStopped)) {
			t.Errorf("%s: %v", what, err)
		}
		return err == nil
	}
	const writers, rounds = 5, 150
	var last [writers]string
	var refused atomic.Int64
	var work sync.WaitGroup
	for g := range writers {
		work.Go(func() {
			o := brock.TxnOptions{Durability: []brock.Durability{synced, buffered}[g%2]}
			for i := range rounds {
				v := text(key(g), i, 4000)
				err := s.db.UpdateContext(t.Context(), o, func(txn *brock.Txn) error { return txn.Set([]byte(key(g)), []byte(v)) })
				if passes("set", err) {
					last[g] = v
				} else {
					refused.Add(1)
				}
				got, err := s.db.Get([]byte(key(g)))
				if string(got) != last[g] && !(last[g] == "" && errors.Is(err, brock.ErrKeyNotFound)) {
					t.Errorf("%s is %s, %v, want %s", key(g), brief(string(got)), err, brief(last[g]))
				}
				if i%10 == g {
					passes("sync", s.db.Sync(t.Context()))
				}
				if i%25 == g {
					must(t, "verify", s.db.Verify(t.Context(), nil))
				}
			}
		})
	}
	work.Wait()
	close(end)
	faults.Wait()
	fs.Heal()
	must(t, "sync", s.db.Sync(t.Context()))
	o := s.o
	o.FS = mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
	s.close()
	db, err := brock.Open(o)
	must(t, "open", err)
	for g, want := range last {
		if got, err := db.Get([]byte(key(g))); string(got) != want {
			t.Errorf("%s is %s, %v, want %s", key(g), brief(string(got)), err, brief(want))
		}
	}
	must(t, "verify", db.Verify(t.Context(), nil))
	must(t, "close", db.Close())
	t.Logf("%d commits refused", refused.Load())
}
