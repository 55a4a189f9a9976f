package filename

import (
	"math"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/test/kit/corpus"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		name Name
		want string
	}{
		{New(Lock, 0), "LOCK"},
		{New(Super, 0), "SUPER"},
		{New(Manifest, 1), "MANIFEST-000001"},
		{New(Keyring, 7), "KEYS-000007"},
		{New(Journal, 42), "000042.log"},
		{New(Value, 999999), "999999.val"},
		{New(Run, 1000000), "1000000.run"},
		{New(Forwarding, math.MaxUint64), "18446744073709551615.map"},
	} {
		if got := c.name.String(); got != c.want {
			t.Errorf("%+v: name %q, want %q", c.name, got, c.want)
		}
		if got, ok := Parse(c.want); !ok || got != c.name {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", c.want, got, ok, c.name)
		}
		if got := Of(c.name.Kind, c.name.Number); got != c.want {
			t.Errorf("Of = %q, want %q", got, c.want)
		}
	}
}

func TestForeignNames(t *testing.T) {
	for _, s := range []string{
		"", "lock", "SUPER ", "MANIFEST", "MANIFEST-", "MANIFEST-1", "MANIFEST-000000", "MANIFEST-0000001",
		"MANIFEST-00001x", "KEYS-", "KEYS-1", "000001", "000001.sst", "000001.LOG", "00001.log", "0000001.log", "000000.run", "-00001.run",
		"+00001.run", "000001.log.tmp", "18446744073709551616.map", "99999999999999999999.map", "x000001.log", "０００００１.log",
	} {
		if n, ok := Parse(s); ok {
			t.Errorf("Parse(%q) = %+v: accepted", s, n)
		}
	}
}

func TestKindBytesAreDistinct(t *testing.T) {
	seen := map[Kind]bool{}
	for _, k := range []Kind{Lock, Super, Manifest, Journal, Value, Run, Forwarding, Keyring} {
		if seen[k] {
			t.Errorf("kind %v twice", k)
		}
		seen[k] = true
		if want := k == Journal || k == Value || k == Forwarding; k.InValueDir() != want {
			t.Errorf("%v: InValueDir = %v", k, k.InValueDir())
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"SUPER", "LOCK", "MANIFEST-000007", "000001.log", "123456789.val"} {
		corpus.Add(f, s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := Parse(s)
		if ok && n.String() != s {
			t.Errorf("Parse(%q) names %q", s, n.String())
		}
		if ok && n.Kind != Lock && n.Kind != Super && n.Number == entry.FileNum(0) {
			t.Errorf("Parse(%q) has number 0", s)
		}
	})
}
