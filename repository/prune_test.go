package repository_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/repository"
	"github.com/brockdb/brock/vfs"
)

func prune(t testing.TB, s repository.Deleter, keep repository.Keep, o repository.PruneOptions) repository.Pruned {
	t.Helper()
	done, err := repository.Prune(t.Context(), s, keep, o)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// TestPrune removes backups and, an hour later, what only they had.
func TestPrune(t *testing.T) {
	db, s := open(t, vfs.NewMem(), "store"), newMemStore()
	var made []repository.Done
	for i := range 6 {
		change(t, db, uint64(i), 100)
		made = append(made, backup(t, db, s))
	}
	want := contents(t, db)
	before := s.names("")
	if done := prune(t, s, repository.Keep{}, repository.PruneOptions{}); len(done.Removed) != 0 || done.Kept != 6 || done.Waiting != 0 {
		t.Errorf("without a rule: %+v", done)
	}
	dry := prune(t, s, repository.Keep{Last: 2}, repository.PruneOptions{DryRun: true})
	if !slices.Equal(before, s.names("")) {
		t.Error("objects were deleted that are needed, or a mark stays")
	}
	done := prune(t, s, repository.Keep{Last: 2}, repository.PruneOptions{})
	if len(done.Removed) != 4 || done.Kept != 2 || done.Deleted != 0 || done.Waiting == 0 || done.Removed[0].ID != made[0].ID {
		t.Errorf("pruned: %+v", done)
	}
	if dry.Waiting != done.Waiting || dry.WaitingBytes != done.WaitingBytes || len(dry.Removed) != 4 {
		t.Errorf("a dry run said %+v", dry)
	}
	s.pass(59 * time.Minute)
	if again := prune(t, s, repository.Keep{Last: 2}, repository.PruneOptions{}); again.Deleted != 0 || again.Waiting != done.Waiting || again.WaitingBytes != done.WaitingBytes {
		t.Errorf("before the hour has passed: %+v", again)
	}
	s.pass(time.Minute)
	if last := prune(t, s, repository.Keep{Last: 2}, repository.PruneOptions{}); last.Deleted != done.Waiting || last.DeletedBytes != done.WaitingBytes || last.Waiting != 0 {
		t.Errorf("an hour later: %+v", last)
	}
	if v := verified(t, s); v.Backups != 2 || v.Unnamed != 0 || len(s.names("unused/")) != 0 {
		t.Errorf("verified: %+v, marks %q", v, s.names("unused/"))
	}
	if restored(t, s, "") != want {
		t.Error("the newest backup has other contents")
	}
	if _, err := repository.Prune(t.Context(), s, repository.Keep{Last: 1}, repository.PruneOptions{Remove: []string{"nothing"}}); !errors.Is(err, repository.ErrNoBackup) {
		t.Errorf("no such backup: %v", err)
	}
	var option *brock.OptionError
	if _, err := repository.Prune(t.Context(), s, repository.Keep{Last: 1, Daily: -1}, repository.PruneOptions{}); !errors.As(err, &option) || option.Field != "Keep.Daily" {
		t.Errorf("a rule below 0: %v", err)
	}
	if _, err := repository.Prune(t.Context(), s, repository.Keep{Last: 1}, repository.PruneOptions{Store: "00"}); !errors.Is(err, repository.ErrNoBackup) {
		t.Errorf("no such store: %v", err)
	}
	all := repository.PruneOptions{NoBackups: true, Remove: []string{made[4].ID, made[5].ID}}
	if done := prune(t, s, repository.Keep{}, all); done.Kept != 0 || len(s.names("")) != 0 {
		t.Errorf("all removed: %+v, %q are left", done, s.names(""))
	}
}

// TestPruneIsForEachStore keeps the newest backups of each store in a repository.
func TestPruneIsForEachStore(t *testing.T) {
	s := newMemStore()
	one, two := open(t, vfs.NewMem(), "store"), open(t, vfs.NewMem(), "store")
	for i := range 3 {
		change(t, one, uint64(i), 50)
		change(t, two, uint64(i), 50)
		backup(t, one, s)
		backup(t, two, s)
	}
	store := backup(t, one, s).Store
	if done := prune(t, s, repository.Keep{Last: 1}, repository.PruneOptions{Store: store}); done.Kept != 4 || len(done.Removed) != 3 {
		t.Errorf("of one store: %+v", done)
	}
	if done := prune(t, s, repository.Keep{Last: 1}, repository.PruneOptions{NoBackups: true}); done.Kept != 2 || len(done.Removed) != 2 {
		t.Errorf("of both: %+v", done)
	}
	if v := verified(t, s); v.Backups != 2 || v.Unnamed != 0 {
		t.Errorf("verified: %+v", v)
	}
}

// TestPruneBesideABackup runs two Prunes, an hour apart, at each two calls of a backup: what
// the backup names is there.
func TestPruneBesideABackup(t *testing.T) {
	attempt := func(first, second int) (calls int) {
		db, s := open(t, vfs.NewMem(), "store"), newMemStore()
		change(t, db, 1, 40)
		kept := backup(t, db, s) // objects that the next one uses again
		change(t, db, 2, 40)
		lost, cancelled := backup(t, db, s), errors.New("cut")
		change(t, db, 3, 40)
		// A backup that is cut leaves objects that no index names.
		s.fault = func(op, name string) (error, bool) {
			if op == "put" && strings.HasPrefix(name, "backups/") {
				return cancelled, false
			}
			return nil, true
		}
		if _, err := repository.Backup(t.Context(), db, s, repository.Options{}); !errors.Is(err, cancelled) {
			t.Fatal(err)
		}
		s.pass(8 * 24 * time.Hour) // now they may be removed
		inside, looks := false, 0
		s.fault = func(op, name string) (error, bool) {
			if inside {
				return nil, true
			}
			calls++
			if name == "unused/" {
				looks++
			}
			inside = true
			defer func() { inside = false }()
			if calls == first {
				prune(t, s, repository.Keep{}, repository.PruneOptions{Remove: []string{kept.ID, lost.ID}})
			}
			if calls == second {
				// From the last look at the marks to the index it takes 10 minutes at most. What
				// follows a put of a file, or the begin of a look, is a look.
				if looks < 2 || name == "unused/" || strings.HasPrefix(name, "objects/") && op == "put" {
					s.pass(61 * time.Minute)
				} else {
					s.pass(9 * time.Minute)
				}
				prune(t, s, repository.Keep{}, repository.PruneOptions{})
			}
			return nil, true
		}
		_, err := repository.Backup(t.Context(), db, s, repository.Options{})
		if err != nil {
			t.Fatalf("prunes at calls %d and %d: %v", first, second, err)
		}
		s.fault = nil
		s.pass(2 * time.Hour)
		prune(t, s, repository.Keep{}, repository.PruneOptions{})
		s.pass(2 * time.Hour)
		prune(t, s, repository.Keep{}, repository.PruneOptions{})
		if _, err := repository.Verify(t.Context(), s, repository.VerifyOptions{Quick: true}, func(c *brock.CorruptionError) {
			t.Errorf("prunes at calls %d and %d: %v", first, second, c)
		}); err != nil {
			t.FailNow()
		}
		return calls
	}
	step := 1
	if testing.Short() {
		step = 3
	}
	calls := attempt(-1, -1)
	for first := 1; first <= calls; first += step {
		for second := first; second <= calls+2; second += step {
			attempt(first, second)
		}
	}
	t.Logf("%d calls", calls)
}

// TestBackupBesideAPrune runs a backup at each call of a prune which deletes objects that
// the backup needs: it stores them anew.
func TestBackupBesideAPrune(t *testing.T) {
	db, base := open(t, vfs.NewMem(), "store"), newMemStore()
	change(t, db, 1, 40)
	gone := backup(t, db, base)
	prune(t, base, repository.Keep{}, repository.PruneOptions{Remove: []string{gone.ID}})
	base.pass(2 * time.Hour)
	want := contents(t, db)
	for nth, more := 1, true; more; nth++ {
		s, calls := base.clone(), 0
		s.fault = func(string, string) (error, bool) {
			if calls++; calls == nth {
				backup(t, db, s)
			}
			return nil, true
		}
		prune(t, s, repository.Keep{}, repository.PruneOptions{})
		more = calls >= nth
		s.fault = nil
		if len(s.names("backups/")) == 0 {
			continue
		}
		verified(t, s)
		if restored(t, s, "") != want {
			t.Fatalf("a backup at call %d of a prune has other contents", nth)
		}
	}
}

// TestIndexInTheLastMinute has a backup miss a mark, and write its index nine minutes later,
// while a prune that has listed the indexes already waits until the mark is an hour old.
func TestIndexInTheLastMinute(t *testing.T) {
	db, s := open(t, vfs.NewMem(), "store"), newMemStore()
	change(t, db, 1, 40)
	gone := backup(t, db, s)
	looked, goOn, ready := make(chan bool), make(chan bool), make(chan error)
	s.fault = func(op, name string) (error, bool) {
		if op == "put" && strings.HasPrefix(name, "backups/") {
			close(looked)
			<-goOn
		}
		return nil, true
	}
	go func() {
		_, err := repository.Backup(t.Context(), db, s, repository.Options{})
		ready <- err
	}()
	<-looked
	s.fault = nil
	prune(t, s, repository.Keep{}, repository.PruneOptions{Remove: []string{gone.ID}})
	s.pass(9 * time.Minute)
	s.fault = func(op, name string) (error, bool) {
		if op == "put" { // to learn the time
			s.fault = nil
			close(goOn)
			if err := <-ready; err != nil {
				t.Error(err)
			}
			s.pass(52 * time.Minute)
		}
		return nil, true
	}
	prune(t, s, repository.Keep{}, repository.PruneOptions{})
	verified(t, s)
	if restored(t, s, "") != contents(t, db) {
		t.Error("the backup has other contents")
	}
}

// TestPruneLeavesWhatItCannotRead does nothing while an index is damaged.
func TestPruneLeavesWhatItCannotRead(t *testing.T) {
	db, s := open(t, vfs.NewMem(), "store"), newMemStore()
	for i := range 3 {
		change(t, db, uint64(i), 50)
		backup(t, db, s)
	}
	before := s.names("")
	index := s.names("backups/")[1]
	s.objects[index][100] ^= 1
	_, err := repository.Prune(t.Context(), s, repository.Keep{Last: 1}, repository.PruneOptions{NoBackups: true})
	if !errors.Is(err, brock.ErrCorrupt) || !slices.Equal(before, s.names("")) {
		t.Errorf("prune with a damaged index: %v", err)
	}
	if list, err := repository.List(t.Context(), s); len(list) != 2 || !errors.Is(err, brock.ErrCorrupt) {
		t.Errorf("list: %v, %v", list, err)
	}
	backup(t, db, s) // needs no old index
	s.objects[index] = fmt.Appendf(nil, "brock-backup 2 0\n{}\n")
	if _, err := repository.Prune(t.Context(), s, repository.Keep{Last: 1}, repository.PruneOptions{}); !errors.Is(err, brock.ErrFormat) {
		t.Errorf("prune with an index of a later release: %v", err)
	}
	id := strings.TrimPrefix(index, "backups/")
	prune(t, s, repository.Keep{Last: 1}, repository.PruneOptions{Remove: []string{id}, NoBackups: true})
	if v := verified(t, s); v.Backups != 1 || v.Unnamed != 0 {
		t.Errorf("verified: %+v", v)
	}
}
