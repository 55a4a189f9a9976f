package importers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pebble1 "github.com/cockroachdb/pebble"
	pebble2 "github.com/cockroachdb/pebble/v2"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	bolt "go.etcd.io/bbolt"
)

// fixture is a source that a test writes by the library of its engine.
type fixture struct {
	name  string
	peer  Peer
	write func(path string) (end func() error, err error) // end closes it in order
	want  map[string]*record                              // by keyspace
}

func one(r *record) map[string]*record { return map[string]*record{"": r} }

// fixtures are those of all engines.
func fixtures() []fixture {
	all := []fixture{
		{"leveldb", LevelDB, func(path string) (func() error, error) { return writeLevel(path, levelPairs) }, one(levelPairs)},
		{"pebble1", Pebble, func(path string) (func() error, error) { return writePebble1(path, levelPairs) }, one(levelPairs)},
		{"pebble2", Pebble, func(path string) (func() error, error) { return writePebble2(path, levelPairs) }, one(levelPairs)},
		{"bbolt", Bbolt, writeBolt, boltPairs()},
	}
	for i, write := range []func(dir, values string, key []byte, r *record) (func() error, error){writeBadger1, writeBadger2, writeBadger3, writeBadger4} {
		peer := Peer(fmt.Sprintf("badger%d", i+1))
		all = append(all, fixture{string(peer), peer, func(path string) (func() error, error) {
			return write(path, "", nil, badgerPairs)
		}, one(badgerPairs)})
	}
	return all
}

var (
	badgerPairs = versioned(1)
	levelPairs  = plainPairs(64<<10, true)
)

// fixtureNamed returns one of the fixtures.
func fixtureNamed(t testing.TB, name string) fixture {
	for _, f := range fixtures() {
		if f.name == name {
			return f
		}
	}
	t.Fatalf("no fixture %s", name)
	return fixture{}
}

// closed writes a fixture below dir, closes it in order, and returns its path.
func (f *fixture) closed(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, f.name)
	end, err := f.write(path)
	if err == nil {
		err = end()
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func writeLevel(path string, r *record) (func() error, error) {
	db, err := leveldb.OpenFile(path, &opt.Options{WriteBuffer: 256 << 10, CompactionTableSize: 128 << 10})
	if err != nil {
		return nil, err
	}
	for _, p := range r.pairs {
		if p.deleted {
			err = db.Delete(p.key, nil)
		} else {
			err = db.Put(p.key, p.value, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return db.Close, nil
}

func writePebble1(path string, r *record) (func() error, error) {
	// The oldest format, which is that of a program that names none.
	db, err := pebble1.Open(path, &pebble1.Options{Logger: quiet{}, MemTableSize: 256 << 10})
	if err != nil {
		return nil, err
	}
	for _, p := range r.pairs {
		if p.deleted {
			err = db.Delete(p.key, pebble1.NoSync)
		} else {
			err = db.Set(p.key, p.value, pebble1.NoSync)
		}
		if err != nil {
			return nil, err
		}
	}
	// What was not synced is lost when the process is killed.
	return db.Close, db.LogData(nil, pebble1.Sync)
}

func writePebble2(path string, r *record) (func() error, error) {
	db, err := pebble2.Open(path, &pebble2.Options{Logger: quiet{}, MemTableSize: 256 << 10, FormatMajorVersion: pebble2.FormatNewest})
	if err != nil {
		return nil, err
	}
	for _, p := range r.pairs {
		if p.deleted {
			err = db.Delete(p.key, pebble2.NoSync)
		} else {
			err = db.Set(p.key, p.value, pebble2.NoSync)
		}
		if err != nil {
			return nil, err
		}
	}
	// What was not synced is lost when the process is killed.
	return db.Close, db.LogData(nil, pebble2.Sync)
}

// boltBuckets are the buckets of the fixture, by the names of their keyspaces.
func boltBuckets() map[string][]string {
	long := strings.Repeat("long name ", 40)
	buckets := make(map[string][]string)
	for _, path := range [][]string{
		{"users"}, {"users", "by mail"}, {"users", "by mail", "deep"}, {"empty"}, {"around"}, {"around", "only a bucket"},
		{"a/b"}, {"a%2Fb"}, {"%"}, {"a"}, {"a", "b"}, {"\x00\xff"}, {long}, {long, "nested"}, {"users", "nested and empty"},
	} {
		name, _ := KeyspaceName(path...)
		buckets[name] = path
	}
	return buckets
}

// boltPairs is what the fixture of bbolt has.
func boltPairs() map[string]*record {
	want := make(map[string]*record)
	sequences, names := new(record), new(record)
	for name, path := range boltBuckets() {
		want[name] = new(record)
		last := path[len(path)-1]
		if full := strings.Join(path, "/"); len(full) > 255 && !strings.ContainsAny(full, "%") {
			names.set(0, name, full, 0, 0)
		}
		if strings.Contains(last, "empty") || last == "around" {
			continue
		}
		sequences.set(0, name, fmt.Sprint(len(name)), 0, 0)
		want[name].set(0, "of "+name, strings.Repeat("v", len(name)*100), 0, 0)
		want[name].set(0, "empty", "", 0, 0)
	}
	want["users"] = plainPairs(32<<10, false)
	want[SequencesKeyspace], want[NamesKeyspace] = sequences, names
	return want
}

func writeBolt(path string) (func() error, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		return nil, err
	}
	want := boltPairs()
	err = db.Update(func(tx *bolt.Tx) error {
		for name, path := range boltBuckets() {
			b, err := tx.CreateBucketIfNotExists([]byte(path[0]))
			for _, part := range path[1:] {
				if err == nil {
					b, err = b.CreateBucketIfNotExists([]byte(part))
				}
			}
			if err != nil {
				return err
			}
			for _, p := range want[SequencesKeyspace].pairs {
				if string(p.key) == name {
					err = b.SetSequence(uint64(len(name)))
				}
			}
			for _, p := range want[name].pairs {
				if p.deleted {
					err = errors.Join(err, b.Delete(p.key))
				} else {
					err = errors.Join(err, b.Put(p.key, p.value))
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return db.Close, errors.Join(err, db.Sync())
}

// The test binary is also the process that holds a source open, and the one that imports and is
// killed.
const beChild = "IMPORTERS_TEST_CHILD"

func TestMain(m *testing.M) {
	if child := os.Getenv(beChild); child != "" {
		os.Exit(runChild(strings.Split(child, "|")))
	}
	os.Exit(m.Run())
}
