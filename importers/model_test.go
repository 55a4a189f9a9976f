package importers

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// record says what a fixture has: the versions in the order in which they were written.
type record struct {
	pairs []pair
}

func (r *record) set(version uint64, key, value string, meta byte, expires uint64) {
	r.pairs = append(r.pairs, pair{key: []byte(key), value: []byte(value), version: version, meta: meta, expires: expires})
}

func (r *record) del(version uint64, key string) {
	r.pairs = append(r.pairs, pair{key: []byte(key), version: version, deleted: true})
}

// newest returns the pairs that live, by key.
func (r *record) newest() map[string]pair {
	m := make(map[string]pair)
	for _, p := range r.pairs {
		if delete(m, string(p.key)); !p.deleted && !expired(p.expiry(), time.Now()) {
			m[string(p.key)] = p
		}
	}
	return m
}

// Times of expiry.
const (
	future = 4_000_000_000 // in 2096
	past   = 1_000_000_000
)

// versioned is what the fixtures of Badger have: several versions, deletes, expired pairs, and values
// within the tree and in the value log.
func versioned(seed uint64) *record {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := new(record)
	long := strings.Repeat("k", 65_000) // the greatest that Badger takes
	r.set(1, "first", "one", 7, 0)
	r.set(2, "first", "two", 0, 0)
	r.set(2, "empty", "", 1, 0)
	r.set(3, long, "of a long key", 255, 0)
	r.set(4, "lasting", "for a while", 3, future)
	r.set(5, "expired", "too late", 0, past)
	r.set(6, "hidden", "by what has expired", 0, 0)
	r.set(7, "hidden", "gone", 0, past)
	r.set(8, "deleted", "was here", 0, 0)
	r.del(9, "deleted")
	r.del(10, "never")
	r.set(11, "back", "1", 0, 0)
	r.del(12, "back")
	r.set(13, "back", strings.Repeat("large ", 50_000), 9, 0)
	r.set(14, "\x00", "\x00\xff", 0, 0)
	r.set(14, "\xff\xff", "last", 0, future)
	v := uint64(20)
	for range 2000 {
		if rng.IntN(3) > 0 {
			v += 1 + rng.Uint64N(3)
		}
		key := fmt.Sprintf("key %03d", rng.IntN(300))
		if slices.ContainsFunc(r.pairs, func(p pair) bool { return p.version == v && string(p.key) == key }) {
			continue
		}
		if rng.IntN(5) == 0 {
			r.del(v, key)
			continue
		}
		length := rng.IntN(100)
		if rng.IntN(10) == 0 {
			length = rng.IntN(20_000) // over the threshold of the value log
		}
		r.set(v, key, string(randomBytes(rng, length)), byte(rng.IntN(256)), []uint64{0, 0, 0, future, past}[rng.IntN(5)])
	}
	return r
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// plainPairs is what the fixtures of engines without versions have.
func plainPairs(longest int, emptyKey bool) *record {
	rng := rand.New(rand.NewPCG(7, 7))
	r := new(record)
	if emptyKey {
		r.set(0, "", "of the empty key", 0, 0)
	}
	r.set(0, strings.Repeat("k", longest), "of a long key", 0, 0)
	r.set(0, "empty", "", 0, 0)
	r.set(0, "overwritten", "1", 0, 0)
	r.set(0, "overwritten", "2", 0, 0)
	r.set(0, "deleted", "1", 0, 0)
	r.del(0, "deleted")
	r.set(0, "\x00", "\x00\xff", 0, 0)
	r.set(0, "\xff\xff", strings.Repeat("large ", 100_000), 0, 0)
	for range 3000 {
		key := fmt.Sprintf("key %04d", rng.IntN(1500))
		if rng.IntN(6) == 0 {
			r.del(0, key)
		} else {
			r.set(0, key, string(randomBytes(rng, rng.IntN(600))), 0, 0)
		}
	}
	return r
}

// hashFiles returns the checksum of every file below a path, with its name.
func hashFiles(t *testing.T, path string) map[string]string {
	t.Helper()
	sums := make(map[string]string)
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(p)
		sum := sha256.Sum256(content)
		sums[p] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// wantNewest compares the keyspaces of a store with records.
func wantNewest(t *testing.T, dir string, want map[string]*record) {
	t.Helper()
	db, err := brock.Open(brock.Options{Dir: dir, Mode: brock.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(txn *brock.Txn) error {
		spaces := map[string]*brock.Keyspace{"": nil}
		for ks := range db.Keyspaces() {
			spaces[ks.Name()] = ks
		}
		for name := range want {
			if _, ok := spaces[name]; !ok {
				t.Errorf("no keyspace %q", name)
			}
		}
		for name, ks := range spaces {
			left := make(map[string]pair)
			if r := want[name]; r != nil {
				left = r.newest()
			} else if name != "" {
				t.Errorf("keyspace %q should not be there", name)
			}
			for item, err := range txn.In(ks).All() {
				if err != nil {
					return err
				}
				value, err := item.Value()
				if err != nil {
					return err
				}
				p, ok := left[string(item.Key())]
				delete(left, string(item.Key()))
				if !ok || !bytes.Equal(value, p.value) || item.Meta() != p.meta || !item.ExpiresAt().Equal(p.expiry()) {
					t.Errorf("keyspace %q, key %.40q: %d bytes, meta %d, expires %v; there %v", name, item.Key(), len(value), item.Meta(), item.ExpiresAt(), ok)
				}
			}
			for key := range left {
				t.Errorf("keyspace %q: no key %.40q, and %d more", name, key, len(left)-1)
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantHistory compares all versions of a store with a record.
func wantHistory(t *testing.T, dir string, r *record) {
	t.Helper()
	db, err := brock.Open(brock.Options{Dir: dir, Mode: brock.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	type version struct {
		key     string
		version uint64
		dead    bool
		meta    byte
		value   string
		expires int64
	}
	var want, got []version
	now := time.Now()
	for _, p := range r.pairs {
		v := version{key: string(p.key), version: p.version, dead: p.deleted || expired(p.expiry(), now)}
		if !v.dead {
			v.meta, v.value, v.expires = p.meta, string(p.value), int64(p.expires)
		}
		want = append(want, v)
	}
	err = db.View(func(txn *brock.Txn) error {
		for item, err := range txn.Items(brock.IteratorOptions{AllVersions: true}) {
			if err != nil {
				return err
			}
			v := version{key: string(item.Key()), version: item.Version(), dead: item.Deleted() || expired(item.ExpiresAt(), now)}
			if !v.dead {
				value, err := item.Value()
				if err != nil {
					return err
				}
				v.meta, v.value = item.Meta(), string(value)
				if !item.ExpiresAt().IsZero() {
					v.expires = item.ExpiresAt().Unix()
				}
			}
			got = append(got, v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	order := func(a, b version) int {
		return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(b.version, a.version))
	}
	// The oldest versions of a key may be given up while they are dead.
	trim := func(all []version) (kept []version) {
		slices.SortFunc(all, order)
		for i, v := range all {
			alive := slices.ContainsFunc(all[i:], func(o version) bool { return o.key == v.key && !o.dead })
			if alive {
				kept = append(kept, v)
			}
		}
		return kept
	}
	want, got = trim(want), trim(got)
	if !slices.Equal(got, want) {
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Fatalf("version %d of %d: want %.40q@%d, dead %v; got %d versions in all", i, len(want), want[i].key, want[i].version, want[i].dead, len(got))
			}
		}
		t.Fatalf("%d versions, want %d", len(got), len(want))
	}
}
