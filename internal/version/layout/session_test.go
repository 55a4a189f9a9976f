package layout

import (
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
)

// sessions is a layout that edits with the sessions of these IDs lead to.
func sessions(t *testing.T, ids ...uint64) *Layout {
	t.Helper()
	l := New()
	for i, id := range ids {
		next, err := l.Apply(&Edit{Sessions: []Session{{Number: uint64(i + 1), ID: id}}})
		if err != nil {
			t.Fatal(err)
		}
		l = next
	}
	return l
}

// TestSessionsContinue: a later layout of a store is told from one of a copy that went on by itself.
func TestSessionsContinue(t *testing.T) {
	var many []uint64
	for i := range uint64(2 * maxSessions) {
		many = append(many, 100+i)
	}
	for _, c := range []struct {
		name     string
		from, to []uint64
		want     bool
	}{
		{"of an earlier release", nil, []uint64{1}, true},
		{"as before", []uint64{1, 2}, []uint64{1, 2}, true},
		{"gone on", []uint64{1, 2}, []uint64{1, 2, 3}, true},
		{"another session", []uint64{1, 2}, []uint64{1, 3}, false},
		{"another session, gone on", []uint64{1, 2}, []uint64{1, 3, 4}, false},
		{"another store", []uint64{1, 2}, []uint64{5, 2}, false},
		{"gone back", []uint64{1, 2}, []uint64{1}, false},
		{"gone back to none", []uint64{1, 2}, nil, false},
		{"the oldest that is known", many[:maxSessions+1], many, true},
		{"too many between", many[:maxSessions], many, false},
	} {
		if got := sessions(t, c.to...).Sessions().ContinueFrom(sessions(t, c.from...).Sessions()); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	l := sessions(t, many...)
	if n := len(l.Sessions()); n != maxSessions {
		t.Errorf("%d sessions are kept", n)
	}
	again, err := New().Apply(l.Snapshot())
	if err != nil || !again.Sessions().ContinueFrom(l.Sessions()) || !l.Sessions().ContinueFrom(again.Sessions()) {
		t.Errorf("read from a snapshot: %v", err)
	}
	if of, ok := l.Sessions().Of(0); ok {
		t.Errorf("version 0 is of session %v", of)
	}
	if _, err := l.Apply(&Edit{Sessions: []Session{{Number: 3, ID: 9}}}); !errors.Is(err, ErrConflictingEdit) {
		t.Errorf("a session with a number of before: %v", err)
	}
}

// TestSessionsOfHistory: as many sessions are kept as the history and the newest version need, up to
// a bound, and each version is told from that of another past.
func TestSessionsOfHistory(t *testing.T) {
	l, err := New().Apply(&Edit{NextFile: 10, LastVersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range entry.Version(2 * mostSessions) {
		e := &Edit{LastVersion: i + 1, Sessions: []Session{{Number: uint64(i + 1), ID: uint64(1000 + i), Newest: i, Lasts: i}}}
		switch i {
		case 200: // what was committed from here on is history
			e.FeedCommits = []FeedCommit{{Version: 201, Keyspace: KeyspaceChange{ID: 1, Name: "k"}}}
		case 500:
			e.FeedFrom = 201
		}
		if l, err = l.Apply(e); err != nil {
			t.Fatal(err)
		}
		s := l.Sessions()
		if of, ok := s.Of(i + 1); !ok || of.ID != uint64(1000+i) {
			t.Errorf("version %d is of session %v, %v", i+1, of, ok)
		}
		if n, want := len(s), map[bool]int{false: min(int(i)+1, maxSessions), true: int(i) - 198}[i > 264 && i < 500]; i != 500 && i < 1000 && (n < want || n > want+3) {
			t.Errorf("%d sessions of version %d, want %d", n, i+1, want)
		}
		if of, ok := s.Of(200); i >= 200 && i < 500 && (!ok || of.ID != 1199) {
			t.Errorf("at %d, the version before history is of session %v, %v", i, of, ok)
		}
	}
	if of, ok := l.Sessions().Of(5); !ok || of.ID != l.Sessions()[0].ID {
		t.Errorf("a version of a session that is forgotten is of %v, %v", of, ok)
	}
	for i := range uint64(2 * mostSessions) { // without commits
		l, err = l.Apply(&Edit{Sessions: []Session{{Number: uint64(2*mostSessions) + i + 1, ID: i, Newest: l.LastVersion(), Lasts: l.LastVersion()}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.Sessions()); n != mostSessions {
		t.Errorf("%d sessions are kept", n)
	}
}
