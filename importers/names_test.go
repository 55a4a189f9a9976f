package importers

import (
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock"
)

// FuzzNames: the path of a bucket comes back from its keyspace's name, and no two paths have one name.
func FuzzNames(f *testing.F) {
	for _, seed := range [][2]string{{"a", "b"}, {"a/b", ""}, {"%", "%25"}, {"%2F", "/"}, {"\xff", "\x00"}, {strings.Repeat("x", 300), "y"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		path := []string{a}
		if b != "" {
			path = append(path, b)
		}
		if a == "" {
			return // no bucket has this name
		}
		name, full := KeyspaceName(path...)
		if len(name) > brock.MaxKeyspaceName || name == "" {
			t.Errorf("%q is no name", name)
		}
		if back := BucketPath(full); !slices.Equal(back, path) {
			t.Errorf("%q became %q, which is %q", path, full, back)
		}
		if name == SequencesKeyspace || name == NamesKeyspace {
			t.Errorf("%q has a name of the import's own", path)
		}
		if name == full && strings.HasPrefix(name, longPrefix) {
			t.Errorf("%q has the name of a long path", path)
		}
	})
}

// TestOtherNames: a keyspace's name that no bucket has is the name of one bucket.
func TestOtherNames(t *testing.T) {
	for name, want := range map[string][]string{
		"a/b": {"a", "b"}, "a//b": {"a//b"}, "/a": {"/a"}, "100%": {"100%"}, "100%25": {"100%"}, "%2f": {"%2f"}, "a%2Fb/c": {"a/b", "c"},
	} {
		if got := BucketPath(name); !slices.Equal(got, want) {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
