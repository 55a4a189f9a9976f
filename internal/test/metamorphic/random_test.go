package metamorphic

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/model"
)

var (
	seedFlag = flag.Uint64("seed", 0, "the one program to run; 0 = many")
	opsFlag  = flag.Int("ops", 400, "operations of a program")
	forFlag  = flag.Duration("for", 0, "how long to run programs with ever new seeds; 0 = a fixed number of them")
)

// TestPrograms runs random programs on stores of random options and on the model.
func TestPrograms(t *testing.T) {
	if *seedFlag != 0 {
		runProgram(t, *seedFlag).report(t)
		return
	}
	n := 60
	if testing.Short() {
		n = 24
	}
	if raced {
		n /= 3
	}
	var sum world
	end := time.Now().Add(*forFlag)
	for i := 0; *forFlag > 0 && time.Now().Before(end) || *forFlag == 0 && i < n; i++ {
		if *forFlag == 0 && deadline.Near(t) {
			break
		}
		w := runProgram(t, draw.Seed(t))
		sum.commits += w.commits
		sum.conflicts += w.conflicts
		sum.spurious += w.spurious
		sum.crashes += w.crashes
		sum.log = append(sum.log, fmt.Sprint(len(w.log)))
		// A transaction that the program has leaked keeps the store, and so its Options, whose
		// functions refer to the world: nothing of it would ever be freed.
		*w = world{}
	}
	sum.report(t)
	t.Logf("%d programs", len(sum.log))
}

func (w *world) report(t *testing.T) {
	t.Logf("%d commits, %d conflicts, %d more than the model's, %d crashes", w.commits, w.conflicts, w.spurious, w.crashes)
}

func runProgram(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed)
	w.name = fmt.Sprintf("go test ./internal/test/metamorphic -run TestPrograms -seed %d -ops %d", seed, *opsFlag)
	w.note("%+v %+v in memory %v", w.o.KeyspaceDefaults, w.o.Tuning, w.o.InMemory)
	defer func() {
		if p := recover(); p != nil {
			w.fatalf("panic: %v", p)
		}
	}()
	steps := w.steps()
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	for range *opsFlag {
		n := w.rng.IntN(total)
		for _, s := range steps {
			if n -= s.weight; n < 0 {
				s.do()
				break
			}
		}
	}
	w.endAll()
	w.rest()
	w.checkAll("at the end")
	w.checkFed("at the end")
	w.must("verify", w.db.Verify(context.Background(), nil))
	w.close()
	w.verifyLeft()
	return w
}

// rest checks that background work ends when nobody writes.
func (w *world) rest() {
	i := w.o.Maintenance.IdleAfter
	if i == 0 || w.rng.IntN(2) == 0 {
		return
	}
	if restless := w.works.rest(w.t, i, true); restless != "" {
		w.fatalf("work goes on and on, %d pieces so far: %v\n%s", w.works.Load(), w.db.Metrics(), restless)
	}
}

type step struct {
	weight int
	do     func()
}

func (w *world) steps() []step {
	return []step{
		{10, w.set}, {4, w.delete}, {8, w.batch}, {2, w.bulk}, {3, w.fill}, {4, w.compareAndSet}, {5, w.applyOperation}, {3, w.get},
		{10, w.begin}, {36, w.writerStep}, {9, w.commit}, {2, w.discardSome},
		{4, w.beginReader}, {14, w.readerStep}, {2, w.readAt},
		{2, w.deleteRange}, {1, w.dropKeys},
		{3, w.flush}, {2, w.compact}, {2, w.sync}, {1, w.verify}, {1, w.reopen}, {2, w.crash}, {3, w.tick}, {1, w.sizes}, {1, w.checkpoint}, {1, w.backup}, {1, w.rotate}, {3, w.pullSome},
	}
}

// rotate gives an encrypted store a new data key.
func (w *world) rotate() {
	if w.o.Keys == nil {
		return
	}
	o := brock.RotateOptions{Rewrite: w.rng.IntN(2) == 0, Master: w.rng.IntN(4) == 0}
	if o.Rewrite {
		w.endAll() // it waits for transactions with files of their own
	}
	w.fed.lost = w.fed.lost || o.Rewrite
	w.note("rotate %+v", o)
	w.must("rotate", w.db.RotateKey(context.Background(), o))
}

func (w *world) set() {
	k, v := w.key(), w.value()
	w.note("set %.10q, %d bytes", k, len(v))
	w.must("set", w.db.Set([]byte(k), []byte(v)))
	w.committed(w.synced(), model.Write{Key: k, Value: v, Expires: w.defaultExpiry()})
}

func (w *world) delete() {
	k := w.key()
	w.note("delete %.10q", k)
	w.must("delete", w.db.Delete([]byte(k)))
	w.committed(w.synced(), model.Write{Key: k, Delete: true})
}

func (w *world) deleteRange() {
	m := w.rangeWrite()
	w.note("delete range %.10q-%.10q", m.Range.Lower, m.Range.Upper)
	lo, hi := bounds(*m.Range)
	version := w.db.Version()
	w.must("delete range", w.db.DeleteRange(lo, hi))
	if m.Range.Empty() {
		if w.db.Version() != version {
			w.fatalf("the delete of no key is a commit")
		}
		return
	}
	w.committed(w.synced(), m)
}

func (w *world) dropKeys() {
	if w.rng.IntN(4) == 0 {
		w.note("drop all")
		w.must("drop all", w.db.DropAll(context.Background()))
		w.committed(w.synced(), model.Write{Range: &model.Range{}})
		return
	}
	prefixes := []string{pick(w.rng, "a", "b", "c1", "\xff", "b\x00", "fill0"), pick(w.rng, "fill1", "none", "\xff\xff")}
	w.note("drop %.10q", prefixes)
	w.must("drop prefixes", w.db.DropPrefix(context.Background(), []byte(prefixes[0]), []byte(prefixes[1])))
	var writes []model.Write
	for _, p := range prefixes {
		r := model.Prefix(p)
		writes = append(writes, model.Write{Range: &r})
	}
	w.committed(w.synced(), writes...)
}

func (w *world) batch() {
	n := 1 + w.rng.IntN(8)
	w.note("batch of %d", n)
	b := w.db.NewBatch()
	var writes []model.Write
	given, version := w.rng.IntN(3) == 0, w.db.Version()
	for i := range n {
		if given && (i == 0 || w.rng.IntN(3) == 0) {
			if len(writes) > 0 {
				w.note("version %d", version)
				w.m.CommitAt(version, writes...) // nobody reads before the batch is committed
				w.times[version], writes = w.now, nil
			}
			version += 1 + w.rng.Uint64N(9)
			w.must("at", b.At(version))
		}
		m, e := w.write()
		w.apply(b, m, e)
		if m.Range == nil || !m.Range.Empty() {
			writes = append(writes, m)
		}
	}
	_, err := b.Commit(context.Background(), 0)
	w.must("batch", err)
	switch {
	case len(writes) > 0:
		w.committed(w.synced(), writes...)
	case w.m.Last() > w.safe && w.synced(): // the last version had no writes
		w.safe = w.m.Last()
	}
}

func (w *world) bulk() {
	n := 1 + w.rng.IntN(20)
	w.note("writer of %d", n)
	bulk := w.db.NewWriter(context.Background())
	var writes []model.Write
	size := 0
	for range n {
		m, e := w.pointWrite()
		w.apply(bulk, m, e)
		writes = append(writes, m)
		// All of it is one group, and so one version: a group is full with 64 KB.
		if size += len(m.Key) + len(m.Value) + 100; size > 40<<10 {
			break
		}
	}
	w.must("writer", bulk.Close())
	w.committed(w.synced(), writes...)
}

// fill writes enough to fill memtables and segments.
func (w *world) fill() {
	n, size := 20+w.rng.IntN(60), pick(w.rng, 100, 400, 900)
	w.note("fill with %d of %d bytes", n, size)
	b := w.db.NewBatch()
	var writes []model.Write
	for range n {
		k := fmt.Sprintf("fill%03d", w.rng.IntN(200))
		v := text(k, len(w.log), size)
		w.must("batch", b.Set([]byte(k), []byte(v)))
		writes = append(writes, model.Write{Key: k, Value: v, Expires: w.defaultExpiry()})
	}
	_, err := b.Commit(context.Background(), 0)
	w.must("fill", err)
	w.committed(w.synced(), writes...)
}

// applyOperation has the commit compute the new value of a key.
func (w *world) applyOperation() {
	k := w.key()
	e, found := w.m.Get(k, w.m.Last(), uint64(w.now))
	if found && (w.hazy(e) || len(e.Value) > brock.MaxOperand-400) {
		return
	}
	op, operand := brock.OpAppend, text(k, len(w.log), w.rng.IntN(400))
	m := model.Write{Key: k, Value: operand, Expires: w.defaultExpiry()}
	switch {
	case found && w.rng.IntN(4) == 0:
		op, operand = brock.OpClearIf, e.Value
		m = model.Write{Key: k, Delete: true}
	case found:
		m = model.Write{Key: k, Value: e.Value + operand, Expires: e.Expires, Meta: e.Meta, Latest: e.Latest}
	}
	w.note("%v to %.10q, found %v", op, k, found)
	w.must("apply", w.db.Update(func(txn *brock.Txn) error { return txn.Apply(op, []byte(k), []byte(operand)) }))
	w.committed(w.synced(), m)
}

func (w *world) compareAndSet() {
	k, v := w.key(), w.value()
	e, found := w.m.Get(k, w.m.Last(), uint64(w.now))
	if found && w.hazy(e) {
		return
	}
	have := e.Version
	if !found {
		have = 0
	}
	compare := have
	if w.rng.IntN(3) == 0 {
		compare = w.m.Last() - uint64(w.rng.IntN(3))
	}
	remove := w.rng.IntN(3) == 0
	w.note("compare and set %.10q: is %d, want %d, delete %v", k, have, compare, remove)
	var err error
	if remove {
		err = w.db.CompareAndDelete([]byte(k), compare)
	} else {
		err = w.db.CompareAndSet([]byte(k), []byte(v), compare)
	}
	if compare != have {
		if !errors.Is(err, brock.ErrVersionMismatch) {
			w.fatalf("compare and set: %v, the version is %d", err, have)
		}
		return
	}
	w.must("compare and set", err)
	m := model.Write{Key: k, Value: v, Expires: w.defaultExpiry()}
	if remove {
		m = model.Write{Key: k, Delete: true}
	}
	w.committed(w.synced(), m)
}

func (w *world) get() {
	k := w.key()
	w.note("get %.10q", k)
	want, found := w.m.Get(k, w.m.Last(), uint64(w.now))
	if found && w.hazy(want) {
		return
	}
	got, err := w.db.Get([]byte(k))
	has, err2 := w.db.Has([]byte(k))
	w.must("has", err2)
	switch {
	case !found && !errors.Is(err, brock.ErrKeyNotFound):
		w.fatalf("get %.40q: %s, %v, want nothing", k, brief(string(got)), err)
	case found && (err != nil || string(got) != want.Value):
		w.fatalf("get %.40q: %s, %v, want %s", k, brief(string(got)), err, brief(want.Value))
	case has != found:
		w.fatalf("has %.40q: %v", k, has)
	}
}

func (w *world) begin() {
	if len(w.writers) == 4 {
		return
	}
	o := brock.TxnOptions{
		Update: true, Isolation: brock.Isolation(w.rng.IntN(3)), Durability: brock.Durability(w.rng.IntN(3)),
		MaxMemory: pick[int64](w.rng, 0, 0, 1, 500, 5000), // the small ones spill after one write or a few
	}
	if w.rng.IntN(8) == 0 && w.m.Last() > 2 {
		o.ReadAt = w.m.Last() - 1
	}
	if w.rng.IntN(4) == 0 {
		o.CommitAt = w.db.Version() + 1 + w.rng.Uint64N(30)
	}
	txn, err := w.db.Begin(context.Background(), o)
	if errors.Is(err, brock.ErrVersionGone) && o.ReadAt != 0 {
		return
	}
	w.must("begin", err)
	at := w.db.Version()
	if o.ReadAt != 0 {
		at = o.ReadAt
	}
	w.note("begin isolation %d at %d, memory %d", o.Isolation, at, o.MaxMemory)
	if txn.ReadVersion() != at {
		w.fatalf("begun at %d, want %d", txn.ReadVersion(), at)
	}
	w.writers = append(w.writers, &openTxn{
		txn: txn, m: w.m.BeginAt(at), at: at, commitAt: o.CommitAt, isolation: o.Isolation,
		synced: o.Durability == brock.Synced || o.Durability == brock.DefaultDurability && w.synced(),
	})
}

func (w *world) writerStep() {
	if len(w.writers) == 0 {
		return
	}
	x := pick(w.rng, w.writers...)
	switch n := w.rng.IntN(13); {
	case n == 10:
		w.savepoint(x)
	case n == 11:
		w.rollback(x)
	case n == 12:
		w.lock(x)
	case n < 4:
		m, e := w.write()
		w.note("txn at %d: write %.10q-%.10q, delete %v, range %v", x.at, m.Keys().Lower, m.Keys().Upper, m.Delete, m.Range != nil)
		w.apply(x.txn, m, e)
		if m.Range == nil || !m.Range.Empty() {
			x.m.Write(m)
			x.wrote = append(x.wrote, m)
		}
	case n < 7:
		w.txnGet(x)
	case n == 7:
		w.txnEnds(x)
	default:
		w.txnScan(x)
	}
}

func (w *world) txnGet(x *openTxn) {
	k := w.key()
	w.note("txn at %d: get %.10q", x.at, k)
	want, found := x.m.Get(k, uint64(w.now))
	item, err := x.txn.Get([]byte(k))
	has, err2 := x.txn.Has([]byte(k))
	w.must("has", err2)
	switch {
	case found && w.hazy(want):
	case found != (err == nil) || !found && !errors.Is(err, brock.ErrKeyNotFound) || has != found:
		w.fatalf("get %.40q in a transaction at %d: %v, has %v, found in the model: %v %+v", k, x.at, err, has, found, want)
	case found:
		w.same("get in a transaction", item, want)
	}
}

// bounds chooses bounds for a store and for the model.
func (w *world) bounds() (o brock.IteratorOptions, r model.Range) {
	if w.rng.IntN(2) == 0 {
		r.Lower = w.key()
		o.Lower = []byte(r.Lower)
	}
	if w.rng.IntN(2) == 0 {
		if r.Upper = w.key(); r.Upper != "" { // which is no bound to the model
			o.Upper = []byte(r.Upper)
		}
	}
	if w.rng.IntN(3) == 0 {
		p := pick(w.rng, "a", "b", "c1", "\xff", "\xff\xff", "fill0", "b\x00", "none")
		o.Prefix = []byte(p)
		within := model.Prefix(p)
		r.Lower = max(r.Lower, within.Lower)
		if within.Upper != "" && (r.Upper == "" || within.Upper < r.Upper) {
			r.Upper = within.Upper
		}
	}
	o.Reverse = w.rng.IntN(2) == 0
	o.KeysOnly = w.rng.IntN(4) == 0
	o.Prefetch = pick(w.rng, 0, 0, 3)
	if w.rng.IntN(3) == 0 {
		o.Limit = 1 + w.rng.IntN(10)
	}
	return o, r
}

// txnScan walks part of a range in an update, own writes included.
func (w *world) txnScan(x *openTxn) {
	o, r := w.bounds()
	if w.anyHazy(x.at) {
		return
	}
	stop := -1
	if w.rng.IntN(3) == 0 {
		stop = w.rng.IntN(8)
	}
	w.note("txn at %d: scan %.10q-%.10q reverse %v limit %d stop %d", x.at, r.Lower, r.Upper, o.Reverse, o.Limit, stop)
	it := x.txn.NewIterator(o)
	defer func() { w.must("iterator", it.Close()) }()
	it.Rewind()
	n := 0
	for e := range x.m.Scan(r, o.Reverse, o.Limit, uint64(w.now)) {
		if !it.Valid() {
			w.fatalf("scan in a transaction at %d: ends before %.40q version %d, %v", x.at, e.Key, e.Version, it.Err())
		}
		w.same("scan in a transaction", it.Item(), e)
		if n++; n-1 == stop {
			return
		}
		it.Next()
	}
	if it.Valid() {
		w.fatalf("scan in a transaction at %d: %.40q version %d is too much", x.at, it.Item().Key(), it.Item().Version())
	}
}

// txnEnds asks an update for the first and the last item of a range, own writes included.
func (w *world) txnEnds(x *openTxn) {
	o, r := w.bounds()
	if len(o.Prefix) > 0 || w.anyHazy(x.at) {
		return
	}
	find := x.txn.First
	if o.Reverse {
		find = x.txn.Last
	}
	w.note("txn at %d: first %.10q-%.10q reverse %v", x.at, r.Lower, r.Upper, o.Reverse)
	item, err := find(o.Lower, o.Upper)
	n := 0
	for e := range x.m.Scan(r, o.Reverse, 1, uint64(w.now)) {
		if n++; err != nil {
			w.fatalf("first in a transaction at %d: %v, want %.40q version %d", x.at, err, e.Key, e.Version)
		}
		w.same("first in a transaction", item, e)
	}
	if n == 0 && !errors.Is(err, brock.ErrKeyNotFound) {
		w.fatalf("first in a transaction at %d: %v, want nothing", x.at, err)
	}
}

func (w *world) commit() {
	if len(w.writers) == 0 {
		return
	}
	x := pick(w.rng, w.writers...)
	var conflict bool
	switch {
	case len(x.wrote) == 0:
	case x.isolation == brock.Serializable:
		conflict = x.m.Conflict()
	case x.isolation == brock.SnapshotIsolation:
		conflict = slices.ContainsFunc(x.wrote, func(m model.Write) bool { return w.m.ChangedSince(m.Keys(), x.at) })
	}
	late := len(x.wrote) > 0 && x.commitAt != 0 && x.commitAt <= w.db.Version()
	w.note("commit txn at %d, isolation %d, %d writes, conflict %v, as %d, late %v", x.at, x.isolation, len(x.wrote), conflict, x.commitAt, late)
	spills := w.db.Metrics().Tree.Spills
	err := x.txn.Commit()
	w.drop(x)
	spilled := w.db.Metrics().Tree.Spills > spills // a spilled commit is always durable
	switch {
	case late && (errors.Is(err, brock.ErrVersionMismatch) || errors.Is(err, brock.ErrConflict) && conflict):
	case late:
		w.fatalf("commit as %d, the newest is %d: %v", x.commitAt, w.db.Version(), err)
	case errors.Is(err, brock.ErrConflict) && conflict:
		w.conflicts++
	case errors.Is(err, brock.ErrConflict):
		w.spurious++
		w.fatalf("commit: a conflict that the model doesn't see")
	case err != nil:
		w.fatalf("commit: %v", err)
	case conflict:
		w.fatalf("commit: no conflict, but the model sees one")
	case len(x.wrote) > 0:
		w.committed(x.synced || spilled, x.wrote...)
		if v := x.txn.CommitVersion(); v != w.m.Last() || x.commitAt != 0 && v != x.commitAt {
			w.fatalf("committed as %d, want %d", v, w.m.Last())
		}
	}
	if err := x.txn.Set([]byte("a"), nil); !errors.Is(err, brock.ErrTxnDone) {
		w.fatalf("set after commit: %v", err)
	}
}

func (w *world) discardSome() {
	if all := append(slices.Clone(w.writers), w.readers...); len(all) > 0 {
		w.note("discard")
		w.discard(pick(w.rng, all...))
	}
}

func (w *world) flush() {
	w.note("flush")
	w.must("flush", w.db.Flush(context.Background()))
	w.safe = w.m.Last()
}

func (w *world) compact() {
	w.note("compact")
	w.must("compact", w.db.Compact(context.Background()))
	w.safe = w.m.Last()
	if w.rng.IntN(3) == 0 {
		w.checkAll("compacted")
	}
}

func (w *world) sync() {
	w.note("sync")
	w.must("sync", w.db.Sync(context.Background()))
	w.safe = w.m.Last()
}

func (w *world) verify() {
	w.note("verify")
	w.must("verify", w.db.Verify(context.Background(), nil))
	w.checkAll("verified")
}

// tick moves the clock. A transaction reads the clock once, so open ones are ended.
func (w *world) tick() {
	w.endAll()
	d := int64(w.rng.IntN(8000))
	if w.timid && w.rng.IntN(10) == 0 {
		d = -d
		w.wentBack = true
	}
	w.note("tick %d", d)
	w.now += d
	w.latest = max(w.latest, w.now)
	w.clock.Store(w.now)
}

// checkpoint makes a checkpoint. The program goes on in it, or in its source; at the end
// the other one must be whole, whatever has become of the files that they share.
func (w *world) checkpoint() {
	if w.mem == nil {
		return
	}
	other := w.o
	other.Dir, other.ValueDir = fmt.Sprintf("copy%d", len(w.log)), ""
	move := w.rng.IntN(2) == 0
	w.note("checkpoint, and go on there: %v", move)
	w.must("checkpoint", w.db.Checkpoint(context.Background(), other.Dir))
	w.safe = w.m.Last()
	if move {
		version := w.db.Version()
		w.close()
		w.o, other = other, w.o
		w.open()
		if v := w.db.Version(); v != version {
			w.fatalf("the checkpoint has version %d, want %d", v, version)
		}
		w.checkAll("in the checkpoint")
		w.fed.lost = true
	}
	w.left = append(w.left, other)
}

// backup makes a backup, often an increment, and at times restores what there is. The
// program goes on in the restored store.
func (w *world) backup() {
	if len(w.backups) == 0 || w.rng.IntN(4) == 0 {
		w.backups, w.backedUp = nil, nil
	}
	restore := w.mem != nil && w.rng.IntN(2) == 0
	w.note("backup %d, and restore it: %v", len(w.backups), restore)
	var b bytes.Buffer
	info, err := w.db.Backup(context.Background(), &b, brock.BackupOptions{Since: w.backedUp, Compress: w.rng.IntN(2) == 0})
	w.must("backup", err)
	w.backups, w.backedUp = append(w.backups, b.Bytes()), info
	w.safe = w.m.Last()
	if !restore {
		return
	}
	version := w.db.Version()
	w.close()
	w.left = append(w.left, w.o)
	w.o.Dir = fmt.Sprintf("restored%d", len(w.log))
	if w.o.ValueDir != "" {
		w.o.ValueDir = w.o.Dir + " values"
	}
	info, err = brock.Restore(context.Background(), bytes.NewReader(bytes.Join(w.backups, nil)), w.o)
	w.must("restore", err)
	w.open()
	if v := w.db.Version(); v != version || info.Version != version {
		w.fatalf("the restored store has version %d, %d was told, want %d", v, info.Version, version)
	}
	w.checkAll("in the restored store")
	w.fed.lost = true
}

// verifyLeft verifies the stores in which the program did not go on.
func (w *world) verifyLeft() {
	for _, o := range w.left {
		o.FS = w.mem
		db, err := brock.Open(o)
		w.must("open what was left", err)
		w.must("verify what was left", db.Verify(context.Background(), nil))
		w.must("close what was left", db.Close())
	}
}

func (w *world) sizes() {
	_, r := w.bounds()
	lo, hi := bounds(r)
	n := 1 + w.rng.IntN(9)
	w.note("size and split %.10q-%.10q by %d", r.Lower, r.Upper, n)
	// A compaction may end between the calls, and leave less.
	before, beforeBytes := w.db.EstimateSize(nil, nil)
	entries, bytes := w.db.EstimateSize(lo, hi)
	all, allBytes := w.db.EstimateSize(nil, nil)
	all, allBytes = max(all, before), max(allBytes, beforeBytes)
	// Both are estimates of some entries each, so a part may seem to be more than all.
	if entries < 0 || bytes < 0 || entries > all+all/4 || bytes > allBytes+allBytes/4 {
		w.fatalf("size %d, %d of %d, %d", entries, bytes, all, allBytes)
	}
	keys := w.db.Split(lo, hi, n)
	if len(keys) > n-1 {
		w.fatalf("%d keys split into %d", len(keys), n)
	}
	for i, k := range keys {
		if len(k) == 0 || string(k) <= r.Lower || r.Upper != "" && string(k) >= r.Upper || i > 0 && string(k) <= string(keys[i-1]) {
			w.fatalf("split %.10q-%.10q: key %d is %.10q", r.Lower, r.Upper, i, k)
		}
	}
	_ = w.db.Metrics().String()
}
