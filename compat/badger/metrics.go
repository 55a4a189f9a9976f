package badger

import (
	"expvar"
	"fmt"
	"sync"
	"time"

	"github.com/brockdb/brock"
)

// The expvar variables of Badger. Those of its engine have no counterpart, and stay 0. They are made with
// the first store and not with the package: a program may have Badger itself, too, which panics if one of
// its names is taken.
var published struct {
	once sync.Once

	reads, puts, userBytes, iterators, journalBytes, journalWrites, flushedBytes *expvar.Int

	runSize, segmentSize, pendingWrites, compactedBytes *expvar.Map
}

func publishMetrics() {
	p := &published
	p.reads, p.puts = publishInt("get_num_user"), publishInt("put_num_user")
	p.userBytes, p.iterators = publishInt("write_bytes_user"), publishInt("iterator_num_user")
	p.journalBytes, p.journalWrites = publishInt("write_bytes_vlog"), publishInt("write_num_vlog")
	p.flushedBytes, p.compactedBytes = publishInt("write_bytes_l0"), publishMap("write_bytes_compaction")
	p.runSize, p.segmentSize = publishMap("size_bytes_lsm"), publishMap("size_bytes_vlog")
	p.pendingWrites = publishMap("write_pending_num_memtable")
	for _, name := range []string{
		"read_num_vlog", "read_bytes_vlog", "read_bytes_lsm", "get_num_memtable",
		"get_with_result_num_user", "compaction_current_num_lsm",
	} {
		publishInt(name)
	}
	publishMap("get_num_lsm")
	publishMap("hit_num_lsm_bloom_filter")
}

func publishInt(name string) *expvar.Int {
	v := new(expvar.Int)
	publish(name, v)
	return v
}

func publishMap(name string) *expvar.Map {
	v := new(expvar.Map).Init()
	publish(name, v)
	return v
}

// publish publishes a variable under Badger's name, unless Badger itself has done so.
func publish(name string, v expvar.Var) {
	if name = "badger_" + name; expvar.Get(name) == nil {
		expvar.Publish(name, v)
	}
}

// meterEvery is how often the variables are brought up to date, as in Badger.
const meterEvery = time.Minute

// meter adds what a store has done to the variables.
type meter struct {
	quit    chan struct{} // nil: it does not count
	stopped chan struct{}

	mu    sync.Mutex    // guards:
	shown brock.Metrics // what the variables have
}

func (m *meter) begin(db *DB) {
	if !db.opt.MetricsEnabled {
		return
	}
	published.once.Do(publishMetrics)
	m.quit, m.stopped = make(chan struct{}), make(chan struct{})
	m.update(db)
	go func() {
		defer close(m.stopped)
		ticker := time.NewTicker(meterEvery)
		defer ticker.Stop()
		for {
			select {
			case <-m.quit:
				return
			case <-ticker.C:
				m.update(db)
			}
		}
	}()
}

// end brings the variables up to date a last time.
func (m *meter) end(db *DB) {
	if m.quit == nil {
		return
	}
	close(m.quit)
	<-m.stopped
	m.update(db)
}

// update adds what was done since the last update.
func (m *meter) update(db *DB) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, was, p := db.store.Metrics(), &m.shown, &published
	p.reads.Add(now.Reads - was.Reads)
	p.puts.Add(now.Entries - was.Entries)
	p.userBytes.Add(now.Bytes - was.Bytes)
	p.iterators.Add(now.Iterators - was.Iterators)
	p.journalWrites.Add(now.Entries - was.Entries)
	p.journalBytes.Add(now.Tree.JournalBytes - was.Tree.JournalBytes)
	p.flushedBytes.Add(now.Tree.FlushedBytes - was.Tree.FlushedBytes)
	p.compactedBytes.Add(fmt.Sprintf("L%d", db.lastLevel()), now.Tree.CompactedBytes-was.Tree.CompactedBytes)
	setSize(p.runSize, db.opt.Dir, now.Tree.RunBytes)
	setSize(p.segmentSize, db.opt.ValueDir, now.Tree.SegmentBytes)
	setSize(p.pendingWrites, db.opt.Dir, 0)
	m.shown = now
}

func setSize(sizes *expvar.Map, dir string, size int64) {
	v := new(expvar.Int)
	v.Set(size)
	sizes.Set(dir, v)
}
