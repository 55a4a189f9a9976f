package layout

import (
	"errors"
	"testing"
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
	if _, err := l.Apply(&Edit{Sessions: []Session{{Number: 3, ID: 9}}}); !errors.Is(err, ErrConflictingEdit) {
		t.Errorf("a session with a number of before: %v", err)
	}
}
