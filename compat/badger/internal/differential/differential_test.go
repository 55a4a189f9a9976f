package differential_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brockdb/brock/compat/badger/internal/differential"
	"github.com/brockdb/brock/compat/badger/internal/differential/genuine"
	"github.com/brockdb/brock/compat/badger/internal/differential/ported"
)

var (
	callsFlag = flag.Int("calls", 1_000_000, "calls of the API in all programs together")
	seedFlag  = flag.Uint64("seed", 0, "run only the program of this seed")
)

// callsOfProgram is about how many calls one program makes.
const callsOfProgram = 20_000

// TestDriversAreTheSame: what runs on the two differs in a comment, the package and the import only.
func TestDriversAreTheSame(t *testing.T) {
	source := func(pkg, path string) string {
		b, err := os.ReadFile(filepath.Join(pkg, "driver.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, code, found := strings.Cut(string(b), "\npackage "+pkg+"\n")
		for _, name := range []string{path, path + "/pb"} {
			if !found || strings.Count(code, `"`+name+`"`) != 1 {
				t.Fatalf("%s is not as expected", pkg)
			}
			code = strings.Replace(code, `"`+name+`"`, "", 1)
		}
		return code
	}
	g := source("genuine", "github.com/dgraph-io/badger/v4")
	p := source("ported", "github.com/brockdb/brock/compat/badger")
	if g != p {
		t.Fatal("the drivers differ")
	}
}

// TestSamePrograms runs the same programs on both. Of each variety of stores it takes a share of the
// calls.
func TestSamePrograms(t *testing.T) {
	varieties := []struct {
		name   string
		share  int // of 12
		config differential.Config
	}{
		{"unmanaged", 4, differential.Config{}},
		{"managed", 3, differential.Config{Managed: true}},
		{"separated_values", 1, differential.Config{ValueThreshold: 16}},
		{"in_memory", 1, differential.Config{InMemory: true}},
		{"no_conflicts", 1, differential.Config{NoConflicts: true}},
		{"encrypted", 1, differential.Config{Key: []byte("0123456789abcdef")}},
		{"few_versions", 1, differential.Config{Versions: 2}},
	}
	total := *callsFlag
	if testing.Short() {
		total = min(total, 100_000)
	}
	for i, v := range varieties {
		t.Run(v.name, func(t *testing.T) {
			runPrograms(t, v.config, uint64(i+1)*1_000_000, int64(total*v.share/12))
		})
	}
}

// runPrograms runs programs on as many goroutines as there are processors.
func runPrograms(t *testing.T, config differential.Config, seed uint64, calls int64) {
	if *seedFlag != 0 {
		if *seedFlag/1_000_000 == seed/1_000_000 {
			runProgram(t, config, *seedFlag)
		}
		return
	}
	var done, programs atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for done.Load() < calls && !t.Failed() {
				done.Add(int64(runProgram(t, config, seed+uint64(programs.Add(1)))))
			}
		})
	}
	workers.Wait()
	t.Logf("%d programs, %d calls", programs.Load(), done.Load())
}

// pair is one program under way on both.
type pair struct {
	t       *testing.T
	config  differential.Config
	seed    uint64
	gen     *differential.Generator
	genuine differential.Store
	ported  differential.Store

	txns     [differential.Slots]*txn
	commits  []map[string]uint64 // of each commit its keys, with the version if the store is managed
	versions *versionMap
	calls    int
	history  []string // the last calls
}

// txn is what the program knows of an open transaction.
type txn struct {
	update  bool
	readAt  uint64
	begun   int             // how many commits there were
	wrote   map[string]bool // keys
	read    map[string]bool // keys of gets and of items
	scanned []string        // prefixes that iterators were about
}

func newTxn(op *differential.Op, commits int) *txn {
	return &txn{update: op.Update, readAt: op.Version, begun: commits, wrote: map[string]bool{},
		read: map[string]bool{}}
}

// runProgram runs one program and returns how many calls it made.
func runProgram(t *testing.T, config differential.Config, seed uint64) int {
	x := newPair(t, config, seed)
	defer func() { x.closeBoth(x.genuine, x.ported) }()
	var first [2]backup
	half := false
	for x.calls < callsOfProgram && !t.Failed() {
		x.step(x.gen.Next())
		if !half && x.calls > callsOfProgram/2 {
			half = true
			first[0], first[1] = x.backup(x.genuine, 0), x.backup(x.ported, 0)
		}
	}
	if !t.Failed() {
		x.exchange(first)
	}
	return x.calls
}

func (x *pair) open(open func(differential.Config) (differential.Store, error), dir string) differential.Store {
	c := x.config
	c.Dir = dir
	s, err := open(c)
	if err != nil {
		x.t.Errorf("seed %d: open: %v", x.seed, err)
		x.t.FailNow()
	}
	return s
}

// step runs one call on both and compares.
func (x *pair) step(op *differential.Op) {
	if op.Kind == differential.Commit && x.differsByName(op) {
		op = &differential.Op{Kind: differential.Discard, Slot: op.Slot}
	}
	x.endOlder(op)
	if op.Kind == differential.DropPrefix && x.config.Managed {
		x.fillPrefixes(op)
	}
	x.run(op)
	if op.Kind == differential.DropPrefix || op.Kind == differential.DropAll || op.Kind == differential.Reopen {
		// A drop is a commit here, and none in Badger; Open may note when it rotates keys. After this one
		// both have a new version again.
		x.run(&differential.Op{Kind: differential.Batch, Version: 1, Writes: []differential.Write{{Key: []byte("dropped")}}})
	}
}

// fillPrefixes is the difference "drops of deleted keys" of managed stores: if all keys with a prefix are
// deleted, Badger drops nothing, and reads at older versions still see them. So there is a key.
func (x *pair) fillPrefixes(op *differential.Op) {
	fill := &differential.Op{Kind: differential.Batch, Version: x.gen.Newest + 1}
	for _, p := range op.Prefixes {
		fill.Writes = append(fill.Writes, differential.Write{Key: p})
	}
	x.run(fill)
}

// endOlder is the difference "late commits" of managed stores: a transaction of Badger sees what is
// committed after its begin, if the version is one that it reads. One of this module sees what was there
// when it began. So such transactions end before the commit.
func (x *pair) endOlder(op *differential.Op) {
	version, commits := op.Version, op.Kind == differential.Commit || op.Kind == differential.Batch
	if !x.config.Managed || !commits {
		return
	}
	if op.AtEach {
		version = 1<<64 - 1
		for i := range op.Writes {
			version = min(version, op.Writes[i].Version)
		}
	}
	for slot, t := range x.txns {
		if t != nil && t.readAt >= version && (op.Kind == differential.Batch || slot != op.Slot) {
			x.gen.End(slot)
			x.run(&differential.Op{Kind: differential.Discard, Slot: slot})
		}
	}
}

// run runs one call on both and compares.
func (x *pair) run(op *differential.Op) {
	x.history = append(x.history, op.String())
	if len(x.history) > 40 {
		x.history = x.history[1:]
	}
	g := x.genuine.Do(op)
	other := *op
	other.Since = x.versions.floor(op.Since)
	p := x.ported.Do(&other)
	x.calls += 1 + g.Calls
	if op.AllVersions && !x.config.Managed {
		kept := func(items []differential.Item) []bool { return x.keptVersions(items, op.Reverse) }
		g, p = onlyKept(g, kept), onlyKept(p, kept)
	}
	x.compare(g, p)
	x.versions.note(g.ReadTs, p.ReadTs)
	x.follow(op, g)
}

// onlyKept returns a result with those items that kept says of the items of each key.
func onlyKept(r *differential.Result, kept func([]differential.Item) []bool) *differential.Result {
	out := &differential.Result{ReadTs: r.ReadTs, Read: r.Read}
	textEnd := func(i int) int {
		if i+1 < len(r.Items) {
			return r.Items[i+1].Start
		}
		return len(r.Text)
	}
	if len(r.Items) > 0 {
		out.Text = append(out.Text, r.Text[:r.Items[0].Start]...)
	}
	for from := 0; from < len(r.Items); {
		to := from + 1
		for to < len(r.Items) && r.Items[to].Key == r.Items[from].Key && r.Items[from].Key != "" {
			to++
		}
		keep := kept(r.Items[from:to])
		for i := from; i < to; i++ {
			if r.Items[i].Key == "" || keep[i-from] {
				out.Text = append(out.Text, r.Text[r.Items[i].Start:textEnd(i)]...)
				if r.Items[i].Key != "" {
					out.Versions = append(out.Versions, r.Versions[r.Items[i].Version])
				}
			}
		}
		from = to
	}
	return out
}

// keptVersions is the difference "old versions" of stores that are not managed: when Brock writes its
// files it leaves out what lies below a deleted or expired version, or below an entry WithDiscard, and
// deletes that hide nothing. Badger does so when it compacts, which it does not do here. So these are
// taken out of the results of both.
func (x *pair) keptVersions(items []differential.Item, reverse bool) []bool {
	keep := make([]bool, len(items))
	most := len(items)
	if x.config.Versions > 0 {
		most = min(most, x.config.Versions)
	}
	at := func(i int) int { // the i-th newest
		if reverse {
			return len(items) - 1 - i
		}
		return i
	}
	for i := range most {
		if items[at(i)].Gone {
			break
		}
		keep[at(i)] = true
		if items[at(i)].OnlyLatest {
			break
		}
	}
	return keep
}

// firstDifference shows the first line that differs, and what was the same before.
func firstDifference(g, p *differential.Result) string {
	a, b := strings.Split(string(g.Text), "\n"), strings.Split(string(p.Text), "\n")
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	from := max(0, same-4)
	end := func(lines []string) []string { return lines[min(same, len(lines)):min(same+4, len(lines))] }
	return fmt.Sprintf("both returned\n%s\nand then Badger\n%s\nthis module\n%s\nversions of items:\n%v\n%v",
		strings.Join(a[from:same], "\n"), strings.Join(end(a), "\n"), strings.Join(end(b), "\n"), g.Versions, p.Versions)
}

// compare fails the test if the results differ.
func (x *pair) compare(g, p *differential.Result) {
	if x.t.Failed() {
		return
	}
	if !bytes.Equal(g.Text, p.Text) {
		x.t.Errorf("seed %d: calls:\n%s\n\n%s", x.seed, strings.Join(x.history, "\n"), firstDifference(g, p))
		return
	}
	if err := x.versions.match(g.Versions, p.Versions); err != nil {
		x.t.Errorf("seed %d: calls:\n%s\n\nthey returned:\n%s\n\nversions differ: %v\n%v\n%v", x.seed,
			strings.Join(x.history, "\n"), g.Text, err, g.Versions, p.Versions)
	}
}

// follow keeps account of what a call has done.
func (x *pair) follow(op *differential.Op, g *differential.Result) {
	for _, v := range g.Versions {
		if v != 1<<64-1 { // an own write of a transaction that reads at the end of time
			x.gen.Newest = max(x.gen.Newest, v)
		}
	}
	t := x.txns[op.Slot]
	switch op.Kind {
	case differential.Begin:
		x.txns[op.Slot] = newTxn(op, len(x.commits))
	case differential.Get:
		if !t.wrote[string(op.Key)] {
			t.read[string(op.Key)] = true
		}
	case differential.Set, differential.Delete:
		t.wrote[string(op.Write.Key)] = true
	case differential.Iterate, differential.KeyIterate:
		t.followIterator(op, g)
	case differential.Commit:
		x.txns[op.Slot] = nil
		if string(g.Text) == " ok" && t.update {
			x.followCommit(t.wrote, op.Version)
		}
	case differential.Discard:
		x.txns[op.Slot] = nil
	case differential.Batch:
		x.followBatch(op)
	case differential.Update:
		if !op.Fail {
			x.followCommit(keysOf(op.Writes), 0)
		}
	case differential.Sequence, differential.Release:
		x.followCommit(map[string]bool{string([]byte{'q', byte(op.Slot / 2)}): true}, 0)
	case differential.DropPrefix, differential.DropAll, differential.Reopen:
		x.followWhole()
	}
}

func (t *txn) followIterator(op *differential.Op, g *differential.Result) {
	scanned := string(op.Prefix)
	if op.Reverse { // it may have begun behind its prefix
		scanned = ""
	}
	if op.Kind == differential.KeyIterate {
		scanned = string(op.Key)
	}
	t.scanned = append(t.scanned, scanned)
	for key := range g.Read {
		t.read[key] = true
	}
	for _, m := range op.Moves {
		if !m.Rewind {
			t.read[string(m.Seek)] = true
		}
	}
	for i := range op.Writes {
		t.wrote[string(op.Writes[i].Key)] = true
	}
}

func keysOf(writes []differential.Write) map[string]bool {
	keys := map[string]bool{}
	for i := range writes {
		keys[string(writes[i].Key)] = true
	}
	return keys
}

func (x *pair) followCommit(keys map[string]bool, version uint64) {
	c := map[string]uint64{}
	for key := range keys {
		c[key] = version
	}
	x.commits = append(x.commits, c)
	x.gen.Newest = max(x.gen.Newest, version)
}

// followBatch: a batch that is cancelled may still have written a part on neither or both.
func (x *pair) followBatch(op *differential.Op) {
	if op.Fail {
		return
	}
	if !op.AtEach {
		x.followCommit(keysOf(op.Writes), op.Version)
		return
	}
	c := map[string]uint64{}
	for i := range op.Writes {
		w := &op.Writes[i]
		c[string(w.Key)] = w.Version
		x.gen.Newest = max(x.gen.Newest, w.Version)
	}
	x.commits = append(x.commits, c)
}

func (x *pair) followWhole() {
	x.txns = [differential.Slots]*txn{}
}

// differsByName says whether the two may decide differently about a commit, for a reason that the
// README names. Such a transaction is discarded on both.
func (x *pair) differsByName(op *differential.Op) bool {
	t := x.txns[op.Slot]
	if x.config.NoConflicts || !t.update || len(t.wrote) == 0 {
		return false
	}
	return !x.config.Managed && x.meetsPhantom(t)
}

// meetsPhantom is the difference "phantoms": Badger doesn't see that a key has come into a range, or
// changed there, of which the iterator has not returned an item. This module returns ErrConflict in a
// store that is not managed.
func (x *pair) meetsPhantom(t *txn) bool {
	for _, c := range x.commits[t.begun:] {
		for key := range c {
			if !t.read[key] && t.hasScanned(key) {
				return true
			}
		}
	}
	return false
}

func (t *txn) hasScanned(key string) bool {
	for _, prefix := range t.scanned {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// versionMap relates the versions of the two.
type versionMap struct {
	same     bool              // the program gives them
	pairs    map[uint64]uint64 // by Badger's
	greatest uint64            // of Badger's that note has seen
}

func newVersionMap(same bool) *versionMap {
	return &versionMap{same: same, pairs: map[uint64]uint64{0: 0}}
}

// match checks that equal versions stay equal, and greater ones greater.
func (m *versionMap) match(g, p []uint64) error {
	if len(g) != len(p) {
		return fmt.Errorf("%d and %d versions", len(g), len(p))
	}
	for i := range g {
		if m.same {
			if g[i] != p[i] {
				return fmt.Errorf("item %d: %d and %d", i, g[i], p[i])
			}
			continue
		}
		if known, found := m.pairs[g[i]]; found {
			if known != p[i] {
				return fmt.Errorf("item %d: Badger's %d was %d and is %d", i, g[i], known, p[i])
			}
			continue
		}
		for a, b := range m.pairs {
			if (a < g[i]) != (b < p[i]) || b == p[i] {
				return fmt.Errorf("item %d: %d is %d, but %d is %d", i, a, b, g[i], p[i])
			}
		}
		m.pairs[g[i]] = p[i]
	}
	return nil
}

// note relates the newest versions after a commit.
func (m *versionMap) note(g, p uint64) {
	if g > m.greatest {
		m.greatest = g
		m.pairs[g] = p
	}
}

// floor returns this module's version for Badger's greatest one up to v.
func (m *versionMap) floor(v uint64) uint64 {
	if m.same {
		return v
	}
	best := uint64(0)
	for a := range m.pairs {
		if a <= v && a > best {
			best = a
		}
	}
	return m.pairs[best]
}

// backup is one backup and the version that the next one begins at.
type backup struct {
	stream []byte
	next   uint64
}

func (x *pair) backup(s differential.Store, since uint64) backup {
	var b bytes.Buffer
	newest, err := s.Backup(&b, since)
	if err != nil {
		x.t.Errorf("seed %d: backup since %d: %v", x.seed, since, err)
	}
	return backup{b.Bytes(), newest}
}

// exchange loads a backup into both, and compares what is there. The seed says whose backup it is, and
// whether it comes in one piece or in two.
func (x *pair) exchange(first [2]backup) {
	i := x.seed % 2
	source := []differential.Store{x.genuine, x.ported}[i]
	chain := []backup{x.backup(source, 0)}
	if x.seed/2%2 == 0 {
		chain = []backup{first[i], x.backup(source, first[i].next)}
	}
	g := x.open(genuine.Open, x.t.TempDir())
	p := x.open(ported.Open, x.t.TempDir())
	for _, b := range chain {
		for _, s := range []differential.Store{g, p} {
			if err := s.Load(bytes.NewReader(b.stream)); err != nil {
				x.t.Errorf("seed %d: load: %v", x.seed, err)
			}
		}
	}
	x.compareStores(fmt.Sprintf("source %d, %d backups", i, len(chain)), g, p, true)
	// Over what is there: it is dropped, and a store that is not managed gives new versions then.
	x.copyByStream(source, g, p, x.config.Managed)
	x.closeBoth(g, p)
	g, p = x.open(genuine.Open, x.t.TempDir()), x.open(ported.Open, x.t.TempDir())
	x.copyByStream(source, g, p, true)
	x.closeBoth(g, p)
}

func (x *pair) closeBoth(g, p differential.Store) {
	for _, s := range []differential.Store{g, p} {
		if err := s.Close(); err != nil {
			x.t.Errorf("seed %d: close: %v", x.seed, err)
		}
	}
}

// copyByStream writes what a Stream of one sends to both.
func (x *pair) copyByStream(source, g, p differential.Store, sameVersions bool) {
	pairs, err := source.Stream()
	if err != nil {
		x.t.Errorf("seed %d: stream: %v", x.seed, err)
	}
	for _, s := range []differential.Store{g, p} {
		if err := s.Write(pairs, false); err != nil {
			x.t.Errorf("seed %d: stream writer: %v", x.seed, err)
		}
	}
	x.compareStores("stream", g, p, sameVersions)
}

// withoutShadows is the difference "shadows": below an entry WithDiscard a backup has a delete, of the
// version before. This module leaves it out if the store it loads into has had that version, and keeps
// what was there.
func withoutShadows(r *differential.Result) func([]differential.Item) []bool {
	return func(items []differential.Item) []bool {
		keep := make([]bool, len(items))
		for i := range items {
			keep[i] = items[i].Key == "" || i == 0 || !items[i-1].OnlyLatest ||
				r.Versions[items[i].Version]+1 != r.Versions[items[i-1].Version]
		}
		return keep
	}
}

// compareStores compares all versions of two stores that hold the same backup. With sameVersions these
// are the same even if the stores give their own. Else it compares what is newest.
func (x *pair) compareStores(name string, g, p differential.Store, sameVersions bool) {
	for _, all := range []bool{false, true}[:map[bool]int{false: 1, true: 2}[sameVersions]] {
		op := &differential.Op{Kind: differential.Begin, Version: 1<<64 - 1}
		g.Do(op)
		p.Do(op)
		op = &differential.Op{Kind: differential.Iterate, AllVersions: all,
			Moves: []differential.Move{{Rewind: true, Steps: 1 << 40}}}
		a, b := g.Do(op), p.Do(op)
		x.calls += a.Calls
		if !x.config.Managed {
			a, b = onlyKept(a, withoutShadows(a)), onlyKept(b, withoutShadows(b))
		}
		if !bytes.Equal(a.Text, b.Text) {
			x.t.Errorf("seed %d: %s, all versions %v: %s", x.seed, name, all, firstDifference(a, b))
		}
		if err := newVersionMap(sameVersions).match(a.Versions, b.Versions); err != nil {
			x.t.Errorf("seed %d: %s, all versions %v: versions differ: %v", x.seed, name, all, err)
		}
		op = &differential.Op{Kind: differential.Discard}
		g.Do(op)
		p.Do(op)
	}
}
