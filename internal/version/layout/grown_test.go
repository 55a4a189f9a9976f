package layout

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

// TestLayoutsThatShareKeyspaces: whichever layout an edit is applied to, also one that has a
// successor already, the result has its keyspaces, and no other layout changes.
func TestLayoutsThatShareKeyspaces(t *testing.T) {
	rnd := draw.Rand(t)
	type made struct {
		*Layout
		want []string // number and name of each keyspace
	}
	show := func(l *Layout) (list []string) {
		for _, k := range l.Keyspaces() {
			list = append(list, fmt.Sprintf("%d %s %d", k.ID, k.Name, k.floor))
		}
		return list
	}
	all := []made{{New(), nil}}
	for range 3000 {
		from := all[len(all)-1-min(rnd.IntN(4)*rnd.IntN(4), len(all)-1)]
		want := slices.Clone(from.want)
		var e Edit
		taken := false
		if n := len(from.Keyspaces()); n > 0 && rnd.IntN(8) == 0 {
			at := rnd.IntN(n)
			e.DropKeyspaces = []entry.KeyspaceID{from.Keyspaces()[at].ID}
			want = slices.Delete(want, at, at+1)
		} else {
			k := Keyspace{ID: entry.KeyspaceID(from.NextKeyspace()), Name: fmt.Sprint(rnd.IntN(400))}
			taken = slices.ContainsFunc(from.Keyspaces(), func(old Keyspace) bool { return old.Name == k.Name })
			e.SetKeyspaces = []Keyspace{k}
			e.KeyspaceFloors = []KeyspaceFloor{{ID: k.ID, Version: entry.Version(k.ID)}}
			want = append(want, fmt.Sprintf("%d %s %d", k.ID, k.Name, k.ID))
		}
		next, err := from.Apply(&e)
		if taken != errors.Is(err, ErrConflictingEdit) || !taken && err != nil {
			t.Fatalf("%+v: %v; the name is taken: %v", e, err, taken)
		}
		if err == nil {
			all = append(all, made{next, want})
		}
	}
	for i, l := range all {
		if got := show(l.Layout); !slices.Equal(got, l.want) {
			t.Fatalf("layout %d has %q, want %q", i, got, l.want)
		}
	}
}

// TestSuccessorsOfOneLayout are made at the same time.
func TestSuccessorsOfOneLayout(t *testing.T) {
	base := New()
	for n := range 20 {
		next, err := base.Apply(&Edit{SetKeyspaces: []Keyspace{{ID: entry.KeyspaceID(n + 1), Name: fmt.Sprint("base", n)}}})
		if err != nil {
			t.Fatal(err)
		}
		base = next
	}
	var work sync.WaitGroup
	for g := range 8 {
		work.Go(func() {
			l := base
			for n := range 50 {
				next, err := l.Apply(&Edit{SetKeyspaces: []Keyspace{{ID: entry.KeyspaceID(n + 21), Name: fmt.Sprint(g, "of", n)}}})
				if err != nil {
					t.Error(err)
					return
				}
				l = next
			}
			for n, k := range l.Keyspaces()[20:] {
				if want := fmt.Sprint(g, "of", n); k.Name != want {
					t.Errorf("keyspace %d is %q, want %q", k.ID, k.Name, want)
				}
			}
		})
	}
	work.Wait()
}

// TestManyKeyspacesAreAddedInLinearTime: each one takes as much memory, however many there are.
func TestManyKeyspacesAreAddedInLinearTime(t *testing.T) {
	const n, most = 10_000, 3 << 10
	var before, after runtime.MemStats
	l := New()
	runtime.ReadMemStats(&before)
	for i := range n {
		next, err := l.Apply(&Edit{SetKeyspaces: []Keyspace{{ID: entry.KeyspaceID(i + 1), Name: fmt.Sprint(i)}}})
		if err != nil {
			t.Fatal(err)
		}
		l = next
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > most {
		t.Errorf("%d bytes were allocated for each keyspace, want %d at most", each, most)
	}
}
