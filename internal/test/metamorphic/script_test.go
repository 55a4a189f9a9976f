package metamorphic

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// session runs a script. It is the one client of a store, and notes in the ledger
// what it asked for and what the store has promised.
type session struct {
	t      testing.TB
	o      brock.Options
	ledger *ledger
	db     *brock.DB // nil while closed
	// failed is called with every error; the script goes on.
	failed func(what string, err error)
	opened func(db *brock.DB) // called with every store that was opened; may be nil

	hurt func() bool // something has failed, so that waiting may be in vain; may be nil

	clusterings atomic.Int64 // as their events say
}

func newSession(t testing.TB, fs vfs.FS, o brock.Options) *session {
	l := newLedger()
	o.FS, o.Now = fs, l.clock
	if o.Keys == nil {
		o.Keys = keysFor(t)
	}
	if o.Dir == "" {
		o.Dir = "db"
	}
	s := &session{t: t, o: o, ledger: l, failed: func(what string, err error) { t.Fatalf("%s: %v", what, err) }}
	s.o.Events.Compaction = func(w brock.WorkInfo) {
		if w.Reason == "scans jump" && w.Err == nil {
			s.clusterings.Add(1)
		}
	}
	return s
}

func (s *session) open() {
	if s.db != nil {
		return
	}
	db, err := brock.Open(s.o)
	if err != nil {
		s.failed("open", err)
		return
	}
	s.db = db
	s.ledger.mu.Lock()
	s.ledger.created = true
	s.ledger.mu.Unlock()
	if s.opened != nil {
		s.opened(db)
	}
}

func (s *session) close() {
	if s.db == nil {
		return
	}
	err := s.db.Close()
	s.db = nil
	if err != nil {
		s.failed("close", err)
		return
	}
	if s.o.Mode != brock.ReadOnly {
		s.ledger.saved()
	}
}

func (s *session) reopen() {
	s.close()
	s.open()
}

// commit writes in one transaction.
func (s *session) commit(d brock.Durability, writes ...write) {
	s.update(brock.TxnOptions{Durability: d}, d == brock.Synced, writes)
}

// spill writes in one transaction that holds at most memory bytes in memory. Its
// commit is durable at once.
func (s *session) spill(memory int64, writes ...write) {
	s.update(brock.TxnOptions{Durability: brock.Buffered, MaxMemory: memory}, true, writes)
}

// abandon writes in such a transaction, and discards it.
func (s *session) abandon(memory int64, writes ...write) {
	if s.db == nil {
		return
	}
	txn, err := s.db.Begin(context.Background(), brock.TxnOptions{Update: true, MaxMemory: memory})
	if err != nil {
		s.failed("begin", err)
		return
	}
	defer txn.Discard()
	for _, w := range writes {
		if err := apply(txn, w); err != nil {
			s.failed("write", err)
			return
		}
	}
}

func (s *session) update(o brock.TxnOptions, synced bool, writes []write) {
	s.commitBy(synced, writes, func(writes []write) error {
		return s.db.UpdateContext(context.Background(), o, func(txn *brock.Txn) error {
			for _, w := range writes {
				if err := apply(txn, w); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// batch writes in one batch, with the store's durability.
func (s *session) batch(writes ...write) {
	s.commitBy(s.o.Durability != brock.Buffered, writes, func(writes []write) error {
		b := s.db.NewBatch()
		for _, w := range writes {
			if err := apply(b, w); err != nil {
				return err
			}
		}
		_, err := b.Commit(context.Background(), 0)
		return err
	})
}

func (s *session) commitBy(synced bool, writes []write, do func([]write) error) {
	if s.db == nil {
		return
	}
	n := s.ledger.begin(writes)
	s.ledger.mu.Lock()
	writes = s.ledger.commits[n-1].writes
	s.ledger.mu.Unlock()
	err := do(writes)
	if err != nil {
		fate := refused
		if errors.Is(err, brock.ErrStopped) {
			fate = unknown
		}
		s.ledger.end(n, fate, false)
		s.failed(fmt.Sprintf("commit %d", n), err)
		return
	}
	s.ledger.end(n, acked, synced)
}

// writer is what takes writes.
type writer interface {
	SetEntry(e *brock.Entry) error
	Delete(key []byte) error
	DeleteRange(lo, hi []byte) error
}

func apply(to writer, w write) error {
	if w.upper != "" {
		return to.DeleteRange([]byte(w.key), []byte(w.upper))
	}
	if w.del {
		return to.Delete([]byte(w.key))
	}
	return to.SetEntry(&brock.Entry{Key: []byte(w.key), Value: []byte(w.value), TTL: w.ttl})
}

// try does something that makes all commits durable if it succeeds.
func (s *session) try(what string, do func(*brock.DB, context.Context) error) {
	if s.db == nil {
		return
	}
	if err := do(s.db, context.Background()); err != nil {
		s.failed(what, err)
		return
	}
	s.ledger.saved()
}

func (s *session) flush()   { s.try("flush", (*brock.DB).Flush) }
func (s *session) compact() { s.try("compact", (*brock.DB).Compact) }
func (s *session) reclaim() {
	s.try("reclaim", func(db *brock.DB, ctx context.Context) error { _, err := db.Reclaim(ctx); return err })
}

// scanned reads all values, in both directions. If their order makes scans jump, it
// waits for the store to cluster them, which may fail.
func (s *session) scanned(jumping bool) {
	if s.db == nil {
		return
	}
	before := s.clusterings.Load()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for range 3 {
		_ = s.db.View(func(txn *brock.Txn) error { // other tests check what it finds
			for i := range 8 {
				for item, err := range txn.Items(brock.IteratorOptions{Reverse: i%2 == 1}) {
					if err == nil {
						_, err = item.Value()
					}
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
		for range 1000 { // a busy machine takes long
			if !jumping || s.hurt != nil && s.hurt() {
				return
			}
			if s.clusterings.Load() > before {
				return
			}
			<-look.C
		}
	}
}

// rotate changes the keys of an encrypted store.
func (s *session) rotate(o brock.RotateOptions) {
	if s.db == nil {
		return
	}
	if err := s.db.RotateKey(context.Background(), o); err != nil {
		s.failed("rotate", err)
	}
}

func (s *session) sync() { s.try("sync", (*brock.DB).Sync) }

func (s *session) tick(d time.Duration) { s.ledger.tick(d) }

// text returns n bytes that hold key and generation and don't repeat.
func text(key string, generation, n int) string {
	rng := rand.New(rand.NewPCG(uint64(generation), uint64(len(key))))
	b := fmt.Appendf(make([]byte, 0, n+len(key)+40), "%s/%d:", key, generation)
	for len(b) < n {
		// Scripts make hundreds of megabytes of this: fmt took a fifth of the package's time.
		b = hex.AppendEncode(b, binary.BigEndian.AppendUint64(nil, rng.Uint64()))
	}
	return string(b[:n])
}

func key(i int) string { return fmt.Sprintf("key%04d", i) }

// script is a short life of a store. big ones take long, and are crashed at fewer points.
type script struct {
	name    string
	big     bool
	options brock.Options
	run     func(s *session)

	clusters bool // the script makes the store cluster values
}

// small are the smallest files that options allow.
var small = brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10, RunFileSize: 64 << 10}

const (
	synced   = brock.Synced
	buffered = brock.Buffered
)

var scripts = []script{
	{name: "open and close", run: func(s *session) {
		s.open()
		s.close()
		s.open()
		s.close()
	}},
	{name: "synced puts", run: func(s *session) {
		s.open()
		for i := range 6 {
			s.commit(synced, put(key(i), text(key(i), i, 20)))
		}
		s.reopen()
		s.commit(synced, put(key(2), "again"), put(key(9), ""))
		s.close()
	}},
	{name: "buffered puts", run: func(s *session) {
		s.open()
		for i := range 5 {
			s.commit(buffered, put(key(i), text(key(i), 1, 50)), put(key(i+1), "x"))
		}
		s.sync()
		for i := range 5 {
			s.commit(buffered, put(key(i), text(key(i), 2, 50)))
		}
		s.commit(synced, put("end", "1"))
		s.commit(buffered, put("end", "2"))
		s.reopen()
		s.commit(buffered, put("end", "3"))
		s.close()
	}},
	{name: "large values", options: brock.Options{Tuning: small}, run: func(s *session) {
		s.open()
		s.commit(synced, put(key(1), text("a", 1, 600)), put(key(2), text("b", 1, 5000)))
		s.commit(buffered, put(key(3), text("c", 1, 100_000)), put("small", "s"))
		s.commit(synced, put(key(1), text("a", 2, 40_000)))
		s.commit(buffered, put(key(4), text("d", 1, 30_000)))
		s.flush()
		s.commit(synced, put(key(2), text("b", 2, 70_000)), del(key(3)))
		s.flush()
		s.compact()
		s.reopen()
		s.commit(synced, put(key(5), text("e", 1, 700)))
		s.close()
	}},
	{name: "compressed values", big: true, options: brock.Options{Tuning: small, KeyspaceDefaults: brock.KeyspaceOptions{Compression: brock.Zstd, CompressAbove: 100}}, run: func(s *session) {
		s.open()
		s.commit(synced, put(key(1), text("a", 1, 600)), put(key(2), strings.Repeat("b", 5000)), put(key(3), text("c", 1, 90)))
		s.commit(buffered, put(key(4), strings.Repeat(text("d", 1, 700), 200)), put(key(5), text("e", 1, 30_000)))
		s.flush()
		s.o.KeyspaceDefaults.Compression = brock.S2
		s.reopen()
		s.commit(synced, put(key(2), strings.Repeat(text("b", 2, 500), 20)), put(key(6), strings.Repeat("f", 300_000)))
		s.flush()
		s.commit(buffered, del(key(4)), put(key(5), "inline"))
		s.compact()
		s.reclaim()
		s.o.KeyspaceDefaults.Compression = brock.NoCompression
		s.reopen()
		s.commit(synced, put(key(1), text("a", 2, 700)))
		s.reclaim()
		s.close()
	}},
	{name: "new keys", options: brock.Options{Tuning: small, Keys: testKeys}, run: func(s *session) {
		s.open()
		s.commit(synced, put(key(1), text("a", 1, 600)), put(key(2), text("b", 1, 70_000)), put(key(3), "inline"))
		s.rotate(brock.RotateOptions{})
		s.commit(buffered, put(key(4), text("c", 1, 900)))
		s.commit(synced, put(key(1), text("a", 2, 600)))
		s.flush()
		s.rotate(brock.RotateOptions{Rewrite: true})
		s.commit(buffered, put(key(5), text("d", 1, 700)), del(key(3)))
		s.reopen()
		s.rotate(brock.RotateOptions{Master: true})
		s.commit(synced, put(key(3), "again"))
		s.close()
	}},
	{name: "transactions", run: func(s *session) {
		s.open()
		for i := range 4 {
			var writes []write
			for j := range 8 {
				writes = append(writes, put(key(j), text(key(j), i, 10+200*j)))
			}
			s.commit([]brock.Durability{synced, buffered}[i%2], writes...)
			s.batch(put("batch", text("batch", i, 1000)), del(key(i)))
		}
		s.flush()
		s.commit(buffered, del(key(5)), del(key(6)), put(key(5), "back"))
		s.close()
	}},
	{name: "deletes", run: func(s *session) {
		s.open()
		for i := range 8 {
			s.commit(buffered, put(key(i), text(key(i), 1, 100*i)))
		}
		s.flush()
		s.commit(synced, del(key(1)), del(key(7)))
		s.commit(buffered, del(key(2)))
		s.flush()
		s.compact()
		s.commit(buffered, put(key(1), "new"), del(key(3)))
		s.flush()
		s.commit(synced, del(key(1)))
		s.compact()
		s.close()
	}},
	{name: "range deletes", options: brock.Options{Tuning: small}, run: func(s *session) {
		s.open()
		for i := range 8 {
			s.commit(buffered, put(key(i), text(key(i), 1, 300*i)))
		}
		s.flush()
		s.commit(buffered, delRange(key(2), key(5)), put(key(3), text(key(3), 2, 700)))
		s.commit(synced, put(key(4), "new"), delRange(key(6), "~"))
		s.batch(put(key(1), "gone"), delRange(key(0), key(2)), put(key(0), "back"))
		s.flush()
		s.reopen()
		s.compact()
		s.commit(synced, delRange("a", "~")) // deletes everything: the runs need not be read
		s.flush()
		s.commit(buffered, put(key(7), text(key(7), 3, 2000)))
		s.commit(synced, delRange("a", key(7)))
		s.reclaim()
		s.close()
	}},
	{name: "times to live", run: func(s *session) {
		s.open()
		s.commit(synced, fading("a", "1", time.Minute), fading("b", text("b", 1, 2000), time.Hour), put("c", "1"))
		s.tick(30 * time.Second)
		s.commit(buffered, fading("c", "2", time.Minute))
		s.flush()
		s.tick(45 * time.Second)
		s.commit(synced, put("d", "1"))
		s.flush()
		s.compact()
		s.tick(time.Hour)
		s.compact()
		s.reopen()
		s.tick(-time.Minute)
		s.commit(synced, fading("a", "3", time.Second))
		s.close()
	}},
	{name: "many runs", run: func(s *session) {
		s.open()
		for i := range 7 {
			s.commit(buffered, put(key(i), text(key(i), i, 30)), put("shared", text("shared", i, 600)))
			s.flush()
		}
		s.commit(synced, del(key(0)))
		s.compact()
		s.close()
	}},
	{name: "full memtables", options: brock.Options{Tuning: small}, run: func(s *session) {
		s.open()
		for i := range 12 {
			var writes []write
			for j := range 40 {
				writes = append(writes, put(key(j*12+i), text(key(j), i, 300)))
			}
			s.commit(buffered, writes...)
		}
		s.sync()
		s.close()
	}},
	{name: "full segments", options: brock.Options{Tuning: small}, run: func(s *session) {
		s.open()
		for i := range 14 {
			s.commit([]brock.Durability{buffered, buffered, synced}[i%3], put(key(i%5), text(key(i), i, 20_000)), put("n", text("n", i, 40)))
		}
		s.flush()
		for i := range 4 {
			s.commit(buffered, put(key(i), text(key(i), 100+i, 25_000)))
		}
		s.close()
	}},
	{name: "short sessions", run: func(s *session) {
		for i := range 7 {
			s.open()
			s.commit([]brock.Durability{buffered, synced}[i%2], put(key(i), text(key(i), i, 900)))
			s.close()
		}
	}},
	{name: "read-only", run: func(s *session) {
		s.open()
		s.commit(synced, put("a", "1"), put("b", text("b", 1, 3000)))
		s.flush()
		s.commit(buffered, put("c", "1"))
		s.close()
		s.o.Mode = brock.ReadOnly
		s.open()
		if s.db != nil {
			if _, err := dump(s.db); err != nil {
				s.failed("read", err)
			}
		}
		s.close()
		s.o.Mode = brock.ReadWrite
		s.open()
		s.commit(synced, put("d", "1"))
		s.close()
	}},
	{name: "deep directories", options: brock.Options{Dir: "a/b/c"}, run: func(s *session) {
		s.open()
		s.commit(synced, put("a", "1"))
		s.close()
	}},
	{name: "values elsewhere", options: brock.Options{Dir: "store/keys", ValueDir: "other/values", Tuning: small}, run: func(s *session) {
		s.open()
		for i := range 4 {
			s.commit(synced, put(key(i), text(key(i), i, 900+10_000*i)))
		}
		s.flush()
		s.commit(buffered, put(key(1), text(key(1), 9, 900)), del(key(2)))
		s.compact()
		s.reopen()
		s.commit(synced, put(key(8), text(key(8), 1, 40_000)))
		s.close()
	}},
	{name: "no separated values", options: brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: -1}, Tuning: small}, run: func(s *session) {
		s.open()
		for i := range 6 {
			s.commit(buffered, put(key(i), text(key(i), i, 20_000)))
		}
		s.flush()
		s.commit(synced, put(key(1), text(key(1), 7, 90_000)))
		s.compact()
		s.close()
	}},
	{name: "huge keys and values", big: true, run: func(s *session) {
		s.open()
		s.commit(synced, put(text("k", 1, brock.MaxKeySize), "of a huge key"), put("a", text("a", 1, 20<<20)))
		s.commit(buffered, put("b", text("b", 1, 3<<20)), put(text("k", 2, 70_000), text("c", 1, 600)))
		s.flush()
		s.commit(synced, del(text("k", 1, brock.MaxKeySize)), put("b", "small"))
		s.compact()
		s.close()
	}},
	{name: "collected segments", options: brock.Options{Tuning: small}, run: func(s *session) {
		s.open()
		for i := range 12 {
			s.commit(buffered, put(key(i), text(key(i), 1, 3000)))
		}
		s.flush()
		for i := range 8 {
			s.commit(buffered, []write{del(key(i)), put(key(i), text(key(i), 2, 900+i))}[i%2])
		}
		s.compact() // makes the first segment mostly garbage, and collects it
		s.commit(synced, del(key(8)), put(key(9), text(key(9), 3, 2000)))
		s.flush()
		s.reopen()
		s.commit(synced, del(key(10)))
		s.reclaim()
		s.commit(buffered, put(key(11), "back"))
		s.reclaim()
		s.close()
	}},
	{name: "transactions in files", options: brock.Options{Tuning: small}, run: func(s *session) {
		s.open()
		s.commit(buffered, put(key(1), "before"), put(key(3), text("a", 1, 900)))
		s.spill(1, put(key(1), "1"), put(key(2), text("b", 1, 600)), del(key(3)), put(key(2), text("b", 2, 700)))
		s.commit(buffered, put(key(4), "after"), del(key(1)))
		s.abandon(1, put(key(4), "never"), put(key(5), text("c", 1, 3000)))
		var writes []write
		for i := range 12 { // more spilled parts than one merge takes
			writes = append(writes, put(key(i), text(key(i), i, 30+400*(i%3))))
		}
		s.spill(1, writes...)
		s.spill(40_000, put("w", text("w", 1, 30_000)), put("x", text("x", 1, 50_000)), put("y", text("y", 1, 100_000)), put("z", "1"))
		s.commit(buffered, put("z", "2"))
		s.reopen()
		s.commit(synced, put("w", "small"), del("x"))
		s.compact()
		s.spill(1, put("z", "3"), del("y"))
		s.reclaim()
		s.close()
	}},
	{name: "range deletes in files", big: true, options: brock.Options{Tuning: small, KeyspaceDefaults: brock.KeyspaceOptions{Compression: brock.S2, CompressAbove: 100}}, run: func(s *session) {
		s.open()
		for i := range 8 {
			s.commit(buffered, put(key(i), text(key(i), 1, 300*i)), fading(key(20+i), strings.Repeat("f", 700), time.Minute))
		}
		s.flush()
		s.spill(1, put(key(1), strings.Repeat("gone", 400)), delRange(key(0), key(4)), put(key(2), strings.Repeat("back", 400)), del(key(5)))
		s.commit(buffered, put(key(3), "after"))
		s.abandon(1, delRange("a", "~"), put(key(6), "never"))
		var writes []write
		for i := range 12 { // merged parts, of which later range deletes hide some keys
			writes = append(writes, put(key(i), strings.Repeat(text(key(i), i, 100), 10)))
		}
		s.spill(1, append(writes, delRange(key(3), key(9)), fading(key(4), text(key(4), 5, 900), time.Minute), delRange(key(10), key(11)))...)
		s.spill(1, delRange(key(20), key(24)), delRange(key(22), key(26))) // range deletes alone
		s.reopen()
		s.compact()
		s.tick(2 * time.Minute)
		s.spill(1, put(key(0), "gone"), delRange("a", key(12)))
		s.commit(synced, put(key(7), strings.Repeat("g", 2000)))
		s.reclaim()
		s.close()
	}},
	{name: "a batch in files", big: true, options: brock.Options{MemoryLimit: 4 << 20}, run: func(s *session) {
		s.open()
		s.commit(buffered, put(key(3), "before"))
		for i := range 2 {
			var writes []write
			for j := range 80 {
				writes = append(writes, put(key(j), text(key(j), i, 300+15_000*(j%2))))
			}
			s.batch(append(writes, del(key(3)))...)
		}
		s.commit(buffered, put(key(4), "after"))
		s.compact()
		s.close()
	}},
	{name: "clustered values", big: true, clusters: true, options: brock.Options{Tuning: small, Maintenance: brock.Maintenance{IdleAfter: time.Millisecond}}, run: func(s *session) {
		s.open()
		for i := range 3 {
			// Scans jump at each value. One may take 128 KB: a jump counts 4 KB, eight scans are made,
			// and four times what they have jumped may be moved.
			var sets []write
			for k := range 44 {
				at := key(3*k + i)
				sets = append(sets, put(at, text(at, 1, 100_000)))
			}
			s.commit(buffered, sets...)
			s.flush() // makes a segment each time, which is large enough to be kept
		}
		s.commit(synced, del(key(3)), put(key(4), text(key(4), 2, 1000)))
		s.scanned(true)
		s.commit(buffered, put(key(3), "back"), del(key(5)))
		s.commit(synced, put(key(6), text(key(6), 2, 3000)))
		s.flush()
		s.scanned(false)
		s.reopen()
		s.commit(synced, del(key(7)))
		s.compact()
		s.close()
	}},
	{name: "kept and dropped segments", big: true, options: brock.Options{Durability: brock.Buffered}, run: func(s *session) {
		s.open()
		for i := range 5 {
			s.commit(buffered, put(key(i), text(key(i), 1, 1<<20)))
		}
		s.flush() // keeps the journal segment, which is mostly values
		for i := range 10 {
			s.commit(buffered, put("same", text("same", i, 1<<20)))
		}
		s.flush() // keeps no values: the file goes
		s.commit(synced, put("a", "1"))
		s.commit(buffered, put("b", text("b", 1, 2000)))
		for i := range 5 {
			s.commit(buffered, put(key(i), text(key(i), 2, 1<<20)))
		}
		s.flush()
		s.compact() // leaves no live value in the first segment
		s.commit(synced, put("c", "1"))
		s.close()
	}},
}
