package commit

import (
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// given is a request of these versions, one key each.
func given(key string, versions ...entry.Version) *Request {
	r := &Request{Check: Check{Isolation: LastWriterWins}, Synced: true}
	for _, v := range versions {
		p, n := payload(fmt.Sprint(key, v))
		r.Given = append(r.Given, Given{Version: v, Begin: len(r.Payload), Number: r.Records})
		r.Payload, r.Records = append(r.Payload, p...), r.Records+n
	}
	return r
}

// TestGivenVersionsInAGroup: given and own versions of a group rise, one that doesn't is refused and
// changes nothing, and a group that is taken back leaves no version behind.
func TestGivenVersionsInAGroup(t *testing.T) {
	m := newMemory()
	l := &start(m).leader
	own := func(key string) *Request { return request(0, LastWriterWins, key) }
	group := []*Request{own("a"), given("b", 10), given("c", 10), given("d", 9, 40), own("e"), given("f", 20, 30), own("g")}
	run := func(members []*Request) (got string) {
		t.Helper()
		if err := l.commitGroup(members); err != nil {
			t.Fatal(err)
		}
		for _, r := range members {
			if r.err != nil && !errors.Is(r.err, errs.ErrVersionMismatch) && !errs.Passes(r.err) {
				t.Error(r.err)
			}
			got += fmt.Sprint(" ", r.version)
		}
		l.forgetGroup()
		return got
	}
	// The sync is refused once: the versions are free again.
	m.sync_ = func() error { m.sync_ = nil; return errs.ErrNoSpace }
	if got := run(group); got != " 0 0 0 0 0 0 0" || l.last != 0 || m.published != 0 || len(m.keys) != 0 {
		t.Errorf("refused:%s, last %d, published %d, %d keys", got, l.last, m.published, len(m.keys))
	}
	if got := run(group); got != " 1 10 0 0 11 30 31" || m.published != 31 {
		t.Errorf("%s, published %d", got, m.published)
	}
	for key, want := range map[string]entry.Version{"a": 1, "b10": 10, "e": 11, "f20": 20, "f30": 30, "g": 31} {
		if s := m.keys[key]; len(s) != 1 || s[0].version != want {
			t.Errorf("%s: %+v, want version %d", key, s, want)
		}
	}
	if len(m.keys) != 6 {
		t.Errorf("%d keys", len(m.keys))
	}
	if got := run([]*Request{given("x", 31), given("y", 32), own("z")}); got != " 0 32 33" {
		t.Error(got)
	}
	// Later members conflict with what an earlier one has written as any of its versions.
	r := request(33, SnapshotIsolation, "f40")
	if err := l.commitGroup([]*Request{given("f", 40, 50), r}); err != nil || !errors.Is(r.err, errs.ErrConflict) || l.last != 50 {
		t.Errorf("%v, %v, last %d", err, r.err, l.last)
	}
}
