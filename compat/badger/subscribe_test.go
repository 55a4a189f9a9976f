package badger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/compat/badger/options"
	"github.com/brockdb/brock/compat/badger/pb"
)

// listen begins a Subscribe and returns when it has begun. got yields what it was called with, as
// "k@version=v"; end is what it returned.
func listen(t *testing.T, ctx context.Context, db *DB, matches ...pb.Match) (got chan string, end chan error) {
	t.Helper()
	got, end = make(chan string, 10000), make(chan error, 1)
	db.watchers.mu.Lock()
	before := len(db.watchers.all)
	db.watchers.mu.Unlock()
	go func() {
		end <- db.Subscribe(ctx, func(list *KVList) error {
			for _, kv := range list.GetKv() {
				s := fmt.Sprintf("%s@%d=%s", kv.GetKey(), kv.GetVersion(), kv.GetValue())
				if kv.GetMeta()[0] != 0 || kv.GetExpiresAt() != 0 {
					s += fmt.Sprintf(" meta %d expires %v", kv.GetMeta()[0], kv.GetExpiresAt() != 0)
				}
				got <- s
			}
			return nil
		}, matches)
	}()
	for { // Badger's API does not tell
		db.watchers.mu.Lock()
		begun := len(db.watchers.all) > before
		for s := range db.watchers.all {
			begun = begun && s.begun
		}
		db.watchers.mu.Unlock()
		if begun {
			return got, end
		}
		time.Sleep(time.Millisecond)
	}
}

func TestSubscribe(t *testing.T) {
	modes(t, func(t *testing.T, s *session) {
		s.set("a=before")
		ctx, cancel := context.WithCancel(t.Context())
		got, end := listen(t, ctx, s.db, pb.Match{Prefix: []byte("a")}, pb.Match{Prefix: []byte("x?z"), IgnoreBytes: "1"})
		txn := s.begin(true)
		check(t, write(txn, "ab=1 b=1 xyz=1 xy=1"))
		check(t, s.commit(txn))
		first, second := <-got, <-got
		if first > second {
			first, second = second, first
		}
		wantText(t, "changes", first+" "+second, "ab@2=1 xyz@2=1")
		s.set("ab")
		wantText(t, "delete", <-got, "ab@3=")
		txn = s.begin(true)
		check(t, txn.SetEntry(NewEntry([]byte("a"), []byte("v")).WithMeta(7).WithTTL(time.Hour)))
		check(t, s.commit(txn))
		wantText(t, "attributes", <-got, "a@4=v meta 7 expires true")
		cancel()
		wantErr(t, "Subscribe", <-end, context.Canceled)
		if len(got) > 0 {
			t.Errorf("%d more", len(got))
		}
	})
}

// Close ends a Subscribe once it has had all that was committed before.
func TestCloseEndsSubscribe(t *testing.T) {
	for range 5 {
		for _, managed := range []bool{false, true} {
			opt := memory()
			opt.managedTxns = managed
			db, err := Open(opt)
			check(t, err)
			idle, idleEnd := listen(t, t.Context(), db, pb.Match{Prefix: []byte("none")})
			got, end := listen(t, t.Context(), db, pb.Match{})
			s := &session{t: t, db: db}
			for i := range 500 {
				s.set(fmt.Sprintf("%03d=v", i))
			}
			check(t, db.Close())
			check(t, <-end)
			check(t, <-idleEnd)
			if len(got) != 500 || len(idle) != 0 {
				t.Errorf("%d of 500, and %d of 0", len(got), len(idle))
			}
			wantErr(t, "after Close", db.Subscribe(t.Context(), func(*KVList) error { return nil }, nil), ErrDBClosed)
		}
	}
}

func TestErrorsOfSubscribe(t *testing.T) {
	db := openDB(t, memory())
	wantErr(t, "nil", db.Subscribe(t.Context(), nil, nil), ErrNilCallback)
	for _, ignore := range []string{"x", "1-", "2-1", "-1", "1,,2", "1-2-3"} {
		if err := db.Subscribe(t.Context(), func(*KVList) error { return nil }, []pb.Match{{Prefix: []byte("abc"), IgnoreBytes: ignore}}); err == nil {
			t.Errorf("IgnoreBytes %q", ignore)
		}
	}
	failure := errors.New("of the caller")
	end := make(chan error, 1)
	ready := make(chan struct{})
	var once sync.Once
	go func() {
		end <- db.Subscribe(t.Context(), func(*KVList) error {
			once.Do(func() { close(ready) })
			return failure
		}, []pb.Match{{}})
	}()
	for done := false; !done; {
		set(t, db, "a=1")
		select {
		case <-ready:
			done = true
		default:
		}
	}
	wantErr(t, "Subscribe", <-end, failure)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "ended context", db.Subscribe(ended, func(*KVList) error { return nil }, nil), context.Canceled)
}

// Drops are not shown, and of a large commit the callback gets lists of some thousand.
func TestSubscribeToLargeCommits(t *testing.T) {
	db := openDB(t, memory())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, _ := listen(t, ctx, db, pb.Match{Prefix: []byte("k")})
	txn := db.NewTransaction(true)
	for i := range 3500 {
		check(t, txn.Set(fmt.Appendf(nil, "k%04d", i), nil))
	}
	check(t, txn.Commit())
	check(t, db.DropAll())
	set(t, db, "kz=last")
	n := 0
	for s := range got {
		if strings.HasSuffix(s, "=last") {
			break
		}
		n++
	}
	if n != 3500 {
		t.Errorf("%d of 3500", n)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		prefix, ignore, key string
		want                bool
	}{
		{"", "", "", true}, {"", "", "a", true}, {"ab", "", "abc", true}, {"ab", "", "a", false}, {"ab", "", "ba", false},
		{"abcd", "1-2", "axxd", true}, {"abcd", "1-2", "axxdz", true}, {"abcd", "1-2", "axxe", false}, {"abcd", "1-2", "axx", false},
		{"abcd", "0, 2-3", "xbyz", true}, {"abcd", "0, 2-3", "xcyz", false}, {"ab", "5-9", "abc", true}, {"ab", " ", "abc", true},
	} {
		p, err := parseMatch(&pb.Match{Prefix: []byte(c.prefix), IgnoreBytes: c.ignore})
		check(t, err)
		if p.matches([]byte(c.key)) != c.want {
			t.Errorf("%q ignoring %q: %q", c.prefix, c.ignore, c.key)
		}
	}
}

// A callback that is slow never holds up writers. When more history has gone by than the store keeps for
// it, Subscribe ends. Badger holds up the writers.
func TestSlowSubscriber(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 250 MB")
	}
	db, err := Open(memory().WithCompression(options.None).WithValueLogFileSize(4 << 20).WithMemTableSize(1 << 20).WithValueThreshold(1 << 10))
	check(t, err)
	began, goOn, end := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		var once sync.Once
		end <- db.Subscribe(t.Context(), func(*KVList) error {
			once.Do(func() { close(began) })
			<-goOn
			return nil
		}, []pb.Match{{}})
	}()
	for hasBegun := false; !hasBegun; {
		set(t, db, "a=1")
		select {
		case <-began:
			hasBegun = true
		default:
		}
	}
	for i := range 250 {
		check(t, db.Update(func(txn *Txn) error { return txn.Set([]byte("a"), fmt.Appendf(make([]byte, 1<<20), "%d", i)) }))
		if i%25 == 0 {
			check(t, db.store.Flush(t.Context())) // history is given up when files are written
		}
	}
	close(goOn)
	check(t, db.Close()) // ends it in any case
	if err := <-end; !errors.Is(err, brock.ErrVersionGone) {
		t.Errorf("error %v", err)
	}
}
