package commit

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
)

const testSeed = 42

// memory is a Store and a Journal in maps. The mutex is only for the tests that
// look at it while a pipeline runs.
type memory struct {
	mu        sync.Mutex
	keys      map[string][]stored // versions of a key, oldest first
	deletes   []deleted
	published entry.Version
	steps     []string // what was called, in order, when traced
	trace     bool
	offset    int64
	asked     int  // questions of the leader, and keys that it was told of
	flushed   bool // what is newer is in runs, so EachArrival knows nothing
	separated bool // memtables have no values

	checked  func(reads *ReadSet) // CheckReads has looked, and is about to return
	throttle func(ctx context.Context, n int) error
	prepare  func(n int) error
	append_  func() error
	sync_    func() error
	retract  func() error
	apply    func(payload []byte) error
	newest   func(key []byte) error
	catchUp  func()

	basesRead func() error // ReadBases is about to return
}

// deleted is a range that was deleted.
type deleted struct {
	lo, hi  string
	version entry.Version
}

type stored struct {
	version entry.Version
	value   string
	deleted bool
}

func newMemory() *memory { return &memory{keys: map[string][]stored{}} }

func (m *memory) step(format string, args ...any) {
	if m.trace {
		m.steps = append(m.steps, fmt.Sprintf(format, args...))
	}
}

func (m *memory) Throttle(ctx context.Context, payload []byte) error {
	if m.throttle != nil {
		return m.throttle(ctx, len(payload))
	}
	return nil
}

func (m *memory) Prepare(payloads [][]byte, records, _ int) error {
	n := 32 * records
	for _, p := range payloads {
		n += len(p)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.step("prepare %d", n)
	if m.prepare != nil {
		return m.prepare(n)
	}
	return nil
}

func (m *memory) Append(before entry.Version, versions []entry.Version, transactions [][]byte) (entry.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	records := 0
	for i, p := range transactions {
		for ; len(p) > 0; records++ {
			rec, err := entry.DecodeRecord(p)
			if err != nil {
				return entry.Position{}, err
			}
			p = p[rec.Size:]
		}
		if len(transactions[i]) > 0 {
			entry.MarkBegin(transactions[i])
		}
	}
	first, last := versions[0], versions[len(versions)-1]
	if first <= before || !slices.IsSorted(versions) {
		return entry.Position{}, fmt.Errorf("versions %d after %d", versions, before)
	}
	m.step("append %d transactions, %d records, versions %d-%d", len(transactions), records, first, last)
	if m.append_ != nil {
		if err := m.append_(); err != nil {
			return entry.Position{}, err
		}
	}
	at := entry.Position{Segment: 1, Offset: m.offset}
	for _, p := range transactions {
		m.offset += int64(len(p))
	}
	return at, nil
}

func (m *memory) Sync() error {
	if m.sync_ != nil {
		if err := m.sync_(); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.step("sync")
	return nil
}

func (m *memory) Retract() error {
	m.step("retract")
	if m.retract != nil {
		return m.retract()
	}
	return nil
}

func (m *memory) Apply(payload []byte, at entry.Position, v entry.Version) (next entry.Position, err error) {
	next = at
	next.Offset += int64(len(payload))
	v-- // the first record begins its transaction
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.apply != nil {
		if err := m.apply(payload); err != nil {
			return next, err
		}
	}
	m.step("apply %d bytes at %d", len(payload), at.Offset)
	for len(payload) > 0 {
		var rec entry.Record
		err := rec.DecodeNext(payload, &v, false)
		if err != nil {
			return next, err
		}
		if rec.Kind == entry.RangeDelete {
			m.deletes = append(m.deletes, deleted{string(rec.Key), string(rec.Value), rec.Version})
			payload = payload[rec.Size:]
			continue
		}
		m.keys[string(rec.Key)] = append(m.keys[string(rec.Key)],
			stored{rec.Version, string(rec.Value), rec.Kind == entry.Delete})
		payload = payload[rec.Size:]
	}
	return next, nil
}

func (m *memory) SortSince(since entry.Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.step("sort since %d", since)
}

func (m *memory) CatchUp() {
	if m.catchUp != nil {
		m.catchUp()
	}
}

func (m *memory) Publish(v entry.Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.step("publish %d", v)
	m.published = v
}

func (m *memory) Newest(key []byte, h uint64, since entry.Version) (entry.Version, bool, error) {
	m.asked++
	return uncounted{m}.Newest(key, h, since)
}

func (m *memory) ChangedSince(lo, hi []byte, since entry.Version) (bool, error) {
	m.asked++
	return uncounted{m}.ChangedSince(lo, hi, since)
}

func (m *memory) CheckReads(reads *ReadSet, since entry.Version) (entry.Version, error) {
	upTo := m.visible()
	err := reads.Check(uncounted{m}, since)
	if m.checked != nil {
		m.checked(reads)
	}
	return upTo, err
}

func (m *memory) EachArrival(since entry.Version, fn func(lo, hi []byte) error) (all bool, err error) {
	if m.flushed {
		return false, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.deletes {
		if d.version > since {
			m.asked++
			if err := fn([]byte(d.lo), []byte(d.hi)); err != nil {
				return true, err
			}
		}
	}
	for k, vs := range m.keys {
		if vs[len(vs)-1].version > since {
			m.asked++
			if err := fn([]byte(k), nil); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}

// newestEntry makes dst the newest entry of key up to a version, a delete if there is none.
func (m *memory) newestEntry(key []byte, at entry.Version, dst *entry.Entry) (newest entry.Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*dst = entry.Entry{Kind: entry.Delete, Value: dst.Value[:0]}
	for _, s := range m.keys[string(key)] {
		if s.version <= at {
			newest = s.version
			*dst = entry.Entry{Kind: entry.Set, Value: append(dst.Value[:0], s.value...)}
			if s.deleted {
				dst.Kind = entry.Delete
			}
		}
	}
	for _, d := range m.deletes {
		if d.lo <= string(key) && string(key) < d.hi && d.version <= at && d.version > newest {
			newest, dst.Kind = d.version, entry.Delete
		}
	}
	return newest
}

func (m *memory) ReadBases(ops []Operation) (at entry.Version, err error) {
	at = m.visible()
	for i := range ops {
		if o := &ops[i]; !o.Versioned {
			m.newestEntry(o.Key, at, &o.base)
		}
	}
	if m.basesRead != nil {
		err = m.basesRead()
	}
	return at, err
}

func (m *memory) FindRecent(key []byte, _ uint64, since entry.Version, _ int, dst *entry.Entry) (newer, known bool, err error) {
	var e entry.Entry
	newer = m.newestEntry(key, entry.MaxVersion, &e) > since
	// All of it is in runs, or only its value is elsewhere.
	if m.flushed && m.visible() > since || m.separated && newer {
		return newer, false, nil
	}
	if newer {
		*dst = e
	}
	return newer, true, nil
}

// uncounted is what others than the leader ask.
type uncounted struct{ *memory }

func (m uncounted) Newest(key []byte, _ uint64, _ entry.Version) (entry.Version, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newest != nil {
		if err := m.newest(key); err != nil {
			return 0, false, err
		}
	}
	newest := entry.Version(0)
	for _, d := range m.deletes {
		if d.lo <= string(key) && string(key) < d.hi {
			newest = max(newest, d.version)
		}
	}
	if vs := m.keys[string(key)]; len(vs) > 0 {
		newest = max(newest, vs[len(vs)-1].version)
	}
	return newest, newest > 0, nil
}

func (m uncounted) ChangedSince(lo, hi []byte, since entry.Version) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.deletes {
		if d.version > since && string(lo) < d.hi && (hi == nil || d.lo < string(hi)) {
			return true, nil
		}
	}
	for k, vs := range m.keys {
		if k >= string(lo) && (hi == nil || k < string(hi)) && vs[len(vs)-1].version > since {
			return true, nil
		}
	}
	return false, nil
}

// get reads key at a version.
func (m *memory) get(key string, at entry.Version) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	vs := m.keys[key]
	for i := len(vs) - 1; i >= 0; i-- {
		if vs[i].version <= at {
			return vs[i].value, !vs[i].deleted
		}
	}
	return "", false
}

func (m *memory) visible() entry.Version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.published
}

// reads is a set of keys and ranges; a range up to "" has no bound.
func reads(keys []string, ranges [][2]string) *ReadSet {
	s := &ReadSet{Seed: testSeed}
	for _, k := range keys {
		s.AddKey([]byte(k), checksum.HashKey(testSeed, []byte(k)))
	}
	for _, g := range ranges {
		var hi []byte
		if g[1] != "" {
			hi = []byte(g[1])
		}
		s.AddRange([]byte(g[0]), hi)
	}
	return s
}

// payload encodes one record a key; a key that begins with "-" is deleted, and of
// "lo~hi" the range.
func payload(keys ...string) ([]byte, int) {
	var p []byte
	for _, k := range keys {
		e := entry.Entry{Kind: entry.Set, Key: []byte(k), Value: []byte("v")}
		if b, ok := bytes.CutPrefix(e.Key, []byte("-")); ok {
			e = entry.Entry{Kind: entry.Delete, Key: b}
		} else if lo, hi, ok := bytes.Cut(e.Key, []byte("~")); ok {
			e = entry.Entry{Kind: entry.RangeDelete, Key: lo, Value: hi}
		}
		p = entry.AppendRecord(p, &e, false)
	}
	return entry.PadRecords(p), len(keys)
}

// request writes keys, having seen everything up to at.
func request(at entry.Version, iso Isolation, keys ...string) *Request {
	p, n := payload(keys...)
	ranges := strings.Count(strings.Join(keys, ""), "~")
	return &Request{Payload: p, Records: n, Ranges: ranges, Check: Check{Isolation: iso, Since: at}}
}

func start(m *memory) *Pipeline {
	return New(Config{Store: m, Journal: m, HashSeed: testSeed})
}

func commit(t *testing.T, p *Pipeline, r *Request) entry.Version {
	t.Helper()
	v, err := p.Commit(context.Background(), r)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return v
}
