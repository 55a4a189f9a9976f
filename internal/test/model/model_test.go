package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/draw"
)

func set(key, value string) Write { return Write{Key: key, Value: value} }
func del(key string) Write        { return Write{Key: key, Delete: true} }

// text writes entries as "key=value@version", with - for a delete.
func text(list []Entry) string {
	var b strings.Builder
	for i, e := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		if e.Deleted {
			fmt.Fprintf(&b, "%s-@%d", e.Key, e.Version)
		} else {
			fmt.Fprintf(&b, "%s=%s@%d", e.Key, e.Value, e.Version)
		}
	}
	return b.String()
}

func TestGetSeesItsVersion(t *testing.T) {
	var s Store
	if v := s.Commit(set("a", "1"), set("b", "1"), set("a", "2")); v != 1 {
		t.Fatalf("first commit is version %d", v)
	}
	s.Commit(del("a"))
	s.Commit(Write{Key: "a", Value: "", Expires: 1000, Meta: 7})
	s.Commit()
	for _, c := range []struct {
		key     string
		at, now uint64
		want    string
	}{
		{"a", 0, 0, "none"},
		{"a", 1, 0, "2 0 v1"}, // the later write of a commit wins
		{"b", 1, 0, "1 0 v1"},
		{"a", 2, 0, "none"},
		{"a", 3, 999, " 7 v3"}, // empty is not missing
		{"a", 3, 1000, "none"}, // expired, and what was before it doesn't shine through
		{"b", 99, 5000, "1 0 v1"},
		{"c", 99, 0, "none"},
	} {
		got := "none"
		if e, found := s.Get(c.key, c.at, c.now); found {
			got = fmt.Sprintf("%s %d v%d", e.Value, e.Meta, e.Version)
		}
		if got != c.want {
			t.Errorf("Get(%q, at %d, now %d) = %q, want %q", c.key, c.at, c.now, got, c.want)
		}
	}
	if s.Last() != 4 {
		t.Errorf("Last is %d after four commits, one of them empty", s.Last())
	}
}

func TestScan(t *testing.T) {
	var s Store
	s.Commit(set("a", "1"), set("b", "1"), set("ba", "1"), set("c", "1"))
	s.Commit(del("b"), set("c", "2"))
	s.Commit(Write{Key: "d", Value: "3", Expires: 100}, set("\xff", "3"))
	for _, c := range []struct {
		name    string
		scan    Scan
		at, now uint64
		want    string
	}{
		{"all", Scan{}, 3, 0, "a=1@1 ba=1@1 c=2@2 d=3@3 \xff=3@3"},
		{"in reverse", Scan{Reverse: true}, 3, 0, "\xff=3@3 d=3@3 c=2@2 ba=1@1 a=1@1"},
		{"at a version", Scan{}, 1, 0, "a=1@1 b=1@1 ba=1@1 c=1@1"},
		{"after expiry", Scan{}, 3, 100, "a=1@1 ba=1@1 c=2@2 \xff=3@3"},
		{"bounds", Scan{Range: Range{"b", "d"}}, 3, 0, "ba=1@1 c=2@2"},
		{"bounds in reverse", Scan{Range: Range{"b", "d"}, Reverse: true}, 3, 0, "c=2@2 ba=1@1"},
		{"bounds the wrong way round", Scan{Range: Range{"d", "b"}}, 3, 0, ""},
		{"prefix", Scan{Range: Prefix("b")}, 1, 0, "b=1@1 ba=1@1"},
		{"prefix without end", Scan{Range: Prefix("\xff")}, 3, 0, "\xff=3@3"},
		{"limit", Scan{Limit: 2}, 3, 0, "a=1@1 ba=1@1"},
		{"limit in reverse", Scan{Limit: 2, Reverse: true}, 3, 0, "\xff=3@3 d=3@3"},
		{"since", Scan{Since: 1}, 3, 0, "c=2@2 d=3@3 \xff=3@3"},
		{"all versions", Scan{AllVersions: true, Range: Range{"b", "e"}}, 3, 100, "b-@2 b=1@1 ba=1@1 c=2@2 c=1@1 d=3@3"},
		{"all versions in reverse", Scan{AllVersions: true, Reverse: true, Range: Range{"b", "e"}}, 3, 0, "d=3@3 c=1@1 c=2@2 ba=1@1 b=1@1 b-@2"},
		{"all versions since", Scan{AllVersions: true, Since: 1, Range: Range{"b", "e"}}, 2, 0, "b-@2 c=2@2"},
		{"all versions, limit", Scan{AllVersions: true, Limit: 3}, 3, 0, "a=1@1 b-@2 b=1@1"},
	} {
		if got := text(slices.Collect(s.Scan(c.scan, c.at, c.now))); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPrefix(t *testing.T) {
	for _, c := range []struct {
		prefix string
		want   Range
	}{
		{"", All},
		{"a", Range{"a", "b"}},
		{"a\xff", Range{"a\xff", "b"}},
		{"\xff\xff", Range{Lower: "\xff\xff"}},
		{"a\x00", Range{"a\x00", "a\x01"}},
	} {
		if got := Prefix(c.prefix); got != c.want {
			t.Errorf("Prefix(%q) = %q, want %q", c.prefix, got, c.want)
		}
	}
}

func TestForgetIsAsIfNeverCommitted(t *testing.T) {
	var s Store
	s.Commit(set("a", "1"))
	before := s.Clone()
	s.Commit(set("a", "2"), set("b", "2"))
	s.Commit(del("a"))
	s.Forget(1)
	for _, o := range []Scan{{}, {AllVersions: true}} {
		got, want := text(slices.Collect(s.Scan(o, 9, 0))), text(slices.Collect(before.Scan(o, 9, 0)))
		if got != want {
			t.Errorf("after Forget: %s, want %s", got, want)
		}
	}
	if v := s.Commit(set("b", "2")); v != 2 {
		t.Errorf("next commit is version %d, want 2", v)
	}
	if _, found := before.Get("b", 9, 0); found {
		t.Error("a commit reached the clone")
	}
}

func TestCommitAtAnyVersion(t *testing.T) {
	var s Store
	s.CommitAt(10, set("a", "10"))
	s.CommitAt(5, set("a", "5"), set("b", "5"))
	s.CommitAt(7, del("a"))
	s.CommitAt(5, set("a", "5 again"))
	if got, want := text(s.Versions("a", 10)), "a=10@10 a-@7 a=5 again@5"; got != want {
		t.Errorf("versions of a: %s, want %s", got, want)
	}
	if s.Last() != 10 || s.ChangedSince(Key("b"), 5) || !s.ChangedSince(Key("a"), 9) {
		t.Errorf("Last %d; b changed since 5: %v; a changed since 9: %v", s.Last(), s.ChangedSince(Key("b"), 5), s.ChangedSince(Key("a"), 9))
	}
}

// history is a second model, plainer still: all writes in a list, searched
// from one end to the other.
type history []Entry

func (h history) get(key string, at uint64) (best Entry, found bool) {
	for _, e := range h {
		if e.Key == key && e.Version <= at && (!found || e.Version >= best.Version) {
			best, found = e, true
		}
	}
	return best, found
}

func (h history) scan(r Range, at, now uint64) string {
	var keys []string
	for _, e := range h {
		if e.Key >= r.Lower && (r.Upper == "" || e.Key < r.Upper) {
			keys = append(keys, e.Key)
		}
	}
	slices.Sort(keys)
	var list []Entry
	for _, key := range slices.Compact(keys) {
		if e, found := h.get(key, at); found && e.Visible(now) {
			list = append(list, e)
		}
	}
	return text(list)
}

func randomKey(rng *rand.Rand) string {
	key := make([]byte, 1+rng.IntN(3))
	for i := range key {
		key[i] = "\x00ab\xff"[rng.IntN(4)]
	}
	return string(key)
}

func randomWrite(rng *rand.Rand, n int) Write {
	w := Write{Key: randomKey(rng), Value: fmt.Sprint(n), Meta: byte(n), Delete: rng.IntN(4) == 0}
	if rng.IntN(4) == 0 {
		w.Expires = uint64(1 + rng.IntN(100))
	}
	return w
}

func TestAgainstHistory(t *testing.T) {
	seed := draw.Seed(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		var s Store
		var h history
		for i := range 100 {
			writes := make([]Write, rng.IntN(4))
			for j := range writes {
				writes[j] = randomWrite(rng, 10*i+j)
			}
			v := s.Commit(writes...)
			for _, w := range writes {
				h = append(h, Entry{Key: w.Key, Value: w.Value, Version: v, Expires: w.Expires, Meta: w.Meta, Deleted: w.Delete})
			}
			at, now := rng.Uint64N(v+2), rng.Uint64N(120)
			key := randomKey(rng)
			want, wantFound := h.get(key, at)
			if got, found := s.Newest(key, at); got != want || found != wantFound {
				t.Fatalf("Newest(%q, %d) = %+v %v, want %+v %v", key, at, got, found, want, wantFound)
			}
			if got, found := s.Get(key, at, now); found != (wantFound && want.Visible(now)) || found && got != want {
				t.Fatalf("Get(%q, %d, %d) = %+v %v, want %+v %v", key, at, now, got, found, want, wantFound)
			}
			r := Range{Lower: randomKey(rng), Upper: randomKey(rng)}
			got := slices.Collect(s.Scan(Scan{Range: r}, at, now))
			if want := h.scan(r, at, now); text(got) != want {
				t.Fatalf("Scan(%q, %d, %d) = %s, want %s", r, at, now, text(got), want)
			}
			back := slices.Collect(s.Scan(Scan{Range: r, Reverse: true}, at, now))
			slices.Reverse(back)
			if !slices.Equal(got, back) {
				t.Fatalf("Scan(%q, %d, %d) in reverse = %s, want %s", r, at, now, text(back), text(got))
			}
		}
	}
}

func TestRangeDeletes(t *testing.T) {
	var s Store
	ab := Write{Range: &Range{"a", "c"}}
	s.Commit(set("a", "1"), set("b", "1"), set("c", "1"))
	s.Commit(set("a", "2"), ab, set("b", "2")) // after its own set of a, before that of b
	s.Commit(ab)
	s.Commit(ab)
	s.Commit(set("a", "5"))
	for _, c := range []struct {
		at   uint64
		want string
	}{
		{1, "a=1@1 b=1@1 c=1@1"}, {2, "b=2@2 c=1@1"}, {3, "c=1@1"}, {4, "c=1@1"}, {5, "a=5@5 c=1@1"},
	} {
		if got := text(slices.Collect(s.Scan(Scan{}, c.at, 0))); got != c.want {
			t.Errorf("at %d: %s, want %s", c.at, got, c.want)
		}
	}
	if got, want := text(slices.Collect(s.Scan(Scan{AllVersions: true}, 5, 0))), "a=5@5 a-@4 a=1@1 b-@4 b=2@2 b=1@1 c=1@1"; got != want {
		t.Errorf("all: %s, want %s", got, want)
	}
	if !s.ChangedSince(Range{"bb", "bc"}, 3) || s.ChangedSince(Range{"bb", "bc"}, 4) || s.ChangedSince(Range{"c", ""}, 1) {
		t.Error("changed since")
	}
	s.Forget(3)
	if got, want := text(s.Versions("b", 9)), "b-@3 b=2@2 b=1@1"; got != want {
		t.Errorf("after Forget: %s, want %s", got, want)
	}
}
