package importers

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/syndtr/goleveldb/leveldb"
	bolt "go.etcd.io/bbolt"

	"github.com/brockdb/brock"
)

var (
	largeBytes = flag.Int64("large", 0, "bytes of the source of TestLarge; it needs four times as much disk space")
	largePeer  = flag.String("peer", "badger4", "the engine of TestLarge: badger4, bbolt or leveldb")
)

// largePair is pair i of a large source: a key of 16 bytes in random order, and a value of 100 to 2,000.
func largePair(i uint64, room []byte) (key, value []byte) {
	rng := rand.New(rand.NewPCG(i, 3))
	key = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rng.Uint64()), i)
	value = room[:100+rng.IntN(1900)]
	for n := 0; n+8 <= len(value); n += 16 { // half of it can be compressed
		binary.LittleEndian.PutUint64(value[n:], rng.Uint64())
	}
	return key, value
}

// TestLarge imports a source of many bytes, of Badger with its history, too, kills the process once in
// the middle, and reports what it took:
//
//	go test -run TestLarge -large 5000000000 -peer badger4 -v -timeout 2h
func TestLarge(t *testing.T) {
	if *largeBytes == 0 {
		t.Skip("-large names the bytes of the source")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	began := time.Now()
	pairs := writeLarge(t, source)
	t.Logf("%d pairs written in %v", pairs, time.Since(began).Round(time.Second))
	kinds := []string{"newest"}
	if Peer(*largePeer) == Badger4 {
		kinds = append(kinds, "history")
	}
	for _, kind := range kinds {
		store := filepath.Join(dir, kind)
		args := "import|" + *largePeer + "|" + source + "|" + store + "|" + kind + "|" + "large"
		cmd := child(t, args)
		started(t, cmd)
		began := time.Now()
		if !waitUntil(func() bool { return dirBytes(store) > *largeBytes/3 || cmd.ProcessState != nil }, time.Hour) {
			t.Fatal("no third was imported in an hour")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		t.Logf("%s: killed after %v", kind, time.Since(began).Round(time.Second))
		began = time.Now()
		cmd = child(t, args)
		started(t, cmd)
		ended := make(chan error)
		go func() { ended <- cmd.Wait() }()
		most := int64(0)
		var err error
		waitUntil(func() bool {
			most = max(most, anonymousMemory(cmd.Process.Pid))
			select {
			case err = <-ended:
				return true
			default:
				return false
			}
		}, 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: the rest, and the compare, in %v; at most %d kB of memory that is no mapped file", kind, time.Since(began).Round(time.Second), most)
		db := open(t, store)
		count := 0
		err = db.View(func(txn *brock.Txn) error {
			spaces := append(slices.Collect(db.Keyspaces()), nil)
			for _, ks := range spaces {
				for _, err := range txn.In(ks).Items(brock.IteratorOptions{KeysOnly: true}) {
					if err != nil {
						return err
					}
					count++
				}
			}
			return nil
		})
		if err != nil || count != pairs {
			t.Errorf("%s: %d pairs, want %d; %v", kind, count, pairs, err)
		}
	}
}

// waitUntil asks now and then, and returns false when the time is over.
func waitUntil(is func() bool, most time.Duration) bool {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(most); time.Now().Before(end); <-tick.C {
		if is() {
			return true
		}
	}
	return false
}

// anonymousMemory returns the memory of a process without mapped files, in kB; 0 where that is not
// known.
func anonymousMemory(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	text, _, _ := strings.Cut(rest, "kB")
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n
}

// dirBytes returns the bytes in the files of a directory; 0 while it is not there.
func dirBytes(dir string) (sum int64) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// writeLarge writes the source, and returns the number of its pairs.
func writeLarge(t *testing.T, path string) (pairs int) {
	t.Helper()
	room := []byte(strings.Repeat("compressible ", 200))
	each := func(put func(key, value []byte) error) error {
		for done := int64(0); done < *largeBytes; pairs++ {
			key, value := largePair(uint64(pairs), room)
			done += int64(len(key) + len(value))
			if err := put(key, append([]byte(nil), value...)); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	switch Peer(*largePeer) {
	case Badger4:
		var db *badger.DB
		db, err = badger.Open(badger.DefaultOptions(path).WithLogger(nil).WithValueThreshold(1024).WithNumVersionsToKeep(math.MaxInt))
		if err != nil {
			t.Fatal(err)
		}
		batch := db.NewWriteBatch()
		if err = each(batch.Set); err == nil {
			err = batch.Flush()
		}
		if end := db.Close(); err == nil {
			err = end
		}
	case LevelDB:
		var db *leveldb.DB
		if db, err = leveldb.OpenFile(path, nil); err != nil {
			t.Fatal(err)
		}
		err = each(func(key, value []byte) error { return db.Put(key, value, nil) })
		if end := db.Close(); err == nil {
			err = end
		}
	case Bbolt:
		var db *bolt.DB
		if db, err = bolt.Open(path, 0o600, &bolt.Options{NoSync: true}); err != nil {
			t.Fatal(err)
		}
		var tx *bolt.Tx
		var b *bolt.Bucket
		err = each(func(key, value []byte) (err error) {
			if pairs%50_000 == 0 {
				if tx != nil {
					if err = tx.Commit(); err != nil {
						return err
					}
				}
				if tx, err = db.Begin(true); err != nil {
					return err
				}
				if b, err = tx.CreateBucketIfNotExists([]byte{byte('a' + pairs/50_000%8)}); err != nil {
					return err
				}
			}
			return b.Put(key, value)
		})
		if err == nil {
			err = tx.Commit()
		}
		if end := db.Close(); err == nil {
			err = end
		}
	default:
		t.Fatalf("no large source of %s", *largePeer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pairs
}
