package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/history"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

var levels = map[string]struct {
	isolation brock.Isolation
	of        history.Levels
}{
	"serializable":     {brock.Serializable, history.Serializable},
	"snapshot":         {brock.SnapshotIsolation, history.Snapshot},
	"last writer wins": {brock.LastWriterWins, history.LastWins},
}

// TestIsolationCases runs the interleavings of the Hermitage suite, and more.
func TestIsolationCases(t *testing.T) {
	for name, level := range levels {
		for _, c := range history.Cases {
			for writes, memory := range map[string]int64{"in memory": 0, "in files": 1} {
				t.Run(name+"/"+c.Name+"/"+writes, func(t *testing.T) {
					db := storetest.Open(t, brock.Options{})
					storetest.Set(t, db, "1=10", "2=20")
					assert.OK(t, c.Run(historyStore{db, level.isolation, memory}, level.of))
				})
			}
		}
	}
}

// historyStore is a store with the interface that history.Cases run on.
type historyStore struct {
	db        *brock.DB
	isolation brock.Isolation
	memory    int64
}

func (s historyStore) Begin(history.Levels) (history.Session, error) {
	txn, err := s.db.Begin(context.Background(), brock.TxnOptions{Update: true, Isolation: s.isolation, MaxMemory: s.memory})
	return session{txn}, err
}

type session struct{ txn *brock.Txn }

func (s session) Get(key string) (string, error) {
	it, err := s.txn.Get([]byte(key))
	if errors.Is(err, brock.ErrKeyNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	v, err := it.Value()
	return string(v), err
}

func (s session) Scan(lo, hi string) (items []string, err error) {
	o := brock.IteratorOptions{Lower: []byte(lo)}
	if hi != "" {
		o.Upper = []byte(hi)
	}
	for it, err := range s.txn.Items(o) {
		if err != nil {
			return nil, err
		}
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		items = append(items, string(it.Key())+"="+string(v))
	}
	return items, nil
}

func (s session) Set(key, value string) error { return s.txn.Set([]byte(key), []byte(value)) }

func (s session) Delete(key string) error { return s.txn.Delete([]byte(key)) }

func (s session) Rollback() error { s.txn.Discard(); return nil }

func (s session) Commit() (conflict bool, err error) {
	err = s.txn.Commit()
	if errors.Is(err, brock.ErrConflict) {
		return true, nil
	}
	return false, err
}

// TestHistories runs concurrent transactions that read and lengthen lists, by key
// and by range, in one keyspace or in three. Flushes and compactions run all the
// time. The history must have no anomaly that the isolation level forbids.
func TestHistories(t *testing.T) {
	for name, forbids := range map[string]history.Level{"serializable": history.StrictSerializable, "snapshot": history.SnapshotIsolation,
		"serializable over keyspaces": history.StrictSerializable} {
		t.Run(name, func(t *testing.T) {
			seed := draw.Seed(t)
			db := storetest.Open(t, brock.Options{Tuning: brock.Tuning{MemtableSize: 64 << 10}})
			var recorder history.Recorder
			level, _, _ := strings.Cut(name, " ")
			run := lists{db: db, isolation: levels[level].isolation, recorder: &recorder, in: []*brock.Keyspace{nil}}
			if level != name {
				run.in = append(run.in, storetest.OpenKeyspace(t, db, "a"), storetest.OpenKeyspace(t, db, "b"))
			}
			underFlushes(t, db, func() {
				var clients sync.WaitGroup
				for client := range 6 {
					clients.Go(func() {
						r := rand.New(rand.NewPCG(seed, uint64(client)))
						for i := range 150 {
							if err := run.transaction(r, client*1000+i, i/30); err != nil {
								t.Errorf("seed %d: %v", seed, err)
								return
							}
						}
					})
				}
				clients.Wait()
			})
			h := recorder.History()
			committed := 0
			for _, x := range h {
				if x.Status == history.Committed {
					committed++
				}
			}
			if committed < len(h)/10 || committed == len(h) {
				t.Errorf("seed %d: %d of %d transactions were committed", seed, committed, len(h))
			}
			for _, a := range history.Check(h, forbids) {
				t.Errorf("seed %d: %v", seed, a)
			}
		})
	}
}

// underFlushes runs fn while the store flushes and compacts without a pause.
func underFlushes(t *testing.T, db *brock.DB, fn func()) {
	done := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			err := db.Flush(t.Context())
			if i%4 == 3 {
				err = db.Compact(t.Context())
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	fn()
	close(done)
	background.Wait()
}

// lists are transactions on lists of numbers, which are spread over keyspaces.
type lists struct {
	in        []*brock.Keyspace
	db        *brock.DB
	isolation brock.Isolation
	recorder  *history.Recorder
}

// transaction does some operations on the lists of an age, and commits. The
// numbers it appends are derived from id.
func (l *lists) transaction(r *rand.Rand, id, age int) error {
	x := l.recorder.Begin()
	o := brock.TxnOptions{Update: true, Isolation: l.isolation, Durability: brock.Buffered}
	if r.IntN(8) == 0 {
		o.MaxMemory = 1 // all writes go through files
	}
	txn, err := l.db.Begin(context.Background(), o)
	if err != nil {
		return err
	}
	defer txn.Discard()
	const keys = 5
	name := func(k int) string { return fmt.Sprintf("list %d %d", age, k) }
	for op := range 1 + r.IntN(4) {
		k := r.IntN(keys)
		key, home := name(k), txn.In(l.in[k%len(l.in)])
		choice := r.IntN(5)
		// SnapshotIsolation does not check what an operation writes, and one that spills has none.
		if choice == 4 && (l.isolation != brock.Serializable || o.MaxMemory == 1) {
			choice = 3
		}
		switch choice {
		case 4: // without a read
			number := id*10 + op
			if err := home.Apply(brock.OpAppend, []byte(key), encodeList([]int{number}, r)); err != nil {
				return err
			}
			x.Ops = append(x.Ops, history.Append(key, number))
		case 0: // all of the age
			found := map[string][]int{}
			for _, ks := range l.in {
				for it, err := range txn.In(ks).Prefix(fmt.Appendf(nil, "list %d ", age)) {
					if err != nil {
						return err
					}
					if found[string(it.Key())], err = decodeList(it); err != nil {
						return err
					}
				}
			}
			for k := range keys {
				x.Ops = append(x.Ops, history.Read(name(k), found[name(k)]...))
			}
		case 1:
			list, err := getList(home, key)
			if err != nil {
				return err
			}
			x.Ops = append(x.Ops, history.Read(key, list...))
		default:
			list, err := getList(home, key)
			if err != nil {
				return err
			}
			number := id*10 + op
			if err := home.Set([]byte(key), encodeList(append(list, number), r)); err != nil {
				return err
			}
			x.Ops = append(x.Ops, history.Append(key, number))
		}
	}
	switch err := txn.Commit(); {
	case err == nil:
		l.recorder.End(x, history.Committed)
	case errors.Is(err, brock.ErrConflict):
		l.recorder.End(x, history.Aborted)
	default:
		return err
	}
	return nil
}

// encodeList writes numbers, and padding of random length after them, so that some
// values are separated and some are inline. Lists one behind the other are a list.
func encodeList(list []int, r *rand.Rand) []byte {
	return []byte(strings.Trim(fmt.Sprint(list), "[]") + " " + strings.Repeat("-", r.IntN(1200)) + " ")
}

func decodeList(it *brock.Item) (list []int, err error) {
	v, err := it.Value()
	if err != nil {
		return nil, err
	}
	for _, text := range strings.Fields(string(v)) {
		if text[0] == '-' {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

func getList(txn *brock.Txn, key string) ([]int, error) {
	it, err := txn.Get([]byte(key))
	if errors.Is(err, brock.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeList(it)
}

// TestLastWriterWinsIsAtomic has transactions write one number each to all keys. A
// reader sees the same number in all keys, and never an older one than before.
func TestLastWriterWinsIsAtomic(t *testing.T) {
	db := storetest.Open(t, brock.Options{Tuning: brock.Tuning{MemtableSize: 64 << 10}, Durability: brock.Buffered})
	keys := []string{"a", "b", "c", "d", "e"}
	underFlushes(t, db, func() {
		var clients sync.WaitGroup
		for client := range 4 {
			clients.Go(func() {
				for i := range 200 {
					o := brock.TxnOptions{Isolation: brock.LastWriterWins}
					if err := db.UpdateContext(t.Context(), o, func(txn *brock.Txn) error {
						for _, k := range keys {
							if err := txn.Set([]byte(k), fmt.Appendf(nil, "%d.%d%s", client, i, strings.Repeat(" ", 200*client))); err != nil {
								return err
							}
						}
						return nil
					}); err != nil {
						t.Error(err)
						return
					}
				}
			})
			clients.Go(func() {
				last := uint64(0)
				for range 200 {
					err := db.View(func(txn *brock.Txn) error {
						var values []string
						for it, err := range txn.All() {
							if err != nil {
								return err
							}
							v, err := it.Value()
							if err != nil {
								return err
							}
							values = append(values, string(v))
							if it.Version() < last {
								t.Errorf("version %d after %d", it.Version(), last)
							}
							last = it.Version()
						}
						for _, v := range values {
							if v != values[0] || len(values) != len(keys) {
								t.Errorf("seen at once: %q", values)
							}
						}
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		clients.Wait()
	})
}
