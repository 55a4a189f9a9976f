// Package differential makes random programs of calls of Badger's API. Its test runs each one on
// genuine Badger and on this module, call by call, and compares what they return.
package differential

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dgraph-io/ristretto/v2/z"
)

// Store runs calls. Packages genuine and ported implement it by the same source.
type Store interface {
	// Do carries out one call and says what it returned.
	Do(op *Op) *Result
	// Backup writes what is newer than since, and returns the greatest version in it.
	Backup(w io.Writer, since uint64) (uint64, error)
	// Load reads a backup.
	Load(r io.Reader) error
	// Stream returns what a Stream sends.
	Stream() ([]*z.Buffer, error)
	// Write writes that by a StreamWriter, to what is there or in the place of it.
	Write(pairs []*z.Buffer, incremental bool) error
	// Merge adds values by a MergeOperator that appends, and returns what it then has.
	Merge(key []byte, values [][]byte) ([]byte, error)
	// Watch subscribes to the keys that match, and returns a function that ends that and returns what
	// came, commit by commit.
	Watch(prefix []byte, ignore string) func() []string
	// Close ends open transactions and the store.
	Close() error
}

// Config says how a store is opened.
type Config struct {
	Dir      string
	Managed  bool // versions are given by the program
	InMemory bool
	// Values of this many bytes are stored apart. 0 is Badger's default.
	ValueThreshold int64
	NoConflicts    bool   // DetectConflicts = false
	Key            []byte // of the encryption
	Versions       int    // NumVersionsToKeep; 0 is all
}

// Result is what a call returned. It is valid until the next one.
type Result struct {
	// Text is what must be the same on both, in the order in which it was returned.
	Text []byte
	// Versions are the versions in the same order. Those that the stores give themselves may differ,
	// but not in their order.
	Versions []uint64
	// ReadTs is the store's newest version after a commit, if it gives versions itself.
	ReadTs uint64
	// Calls is how many calls of the API it was, without the moves of iterators.
	Calls int
	// Items are the items in the text.
	Items []Item
	// Read are the keys of which an iterator has returned an item.
	Read map[string]bool
}

// Item is one item of a result. The text of an item ends where the next one starts.
type Item struct {
	Start      int // in Text
	Version    int // in Versions
	Key        string
	Gone       bool // deleted or expired
	OnlyLatest bool
}

// EndMove says that the items of an iterator's move have ended: what follows is no item.
func (r *Result) EndMove() {
	r.Items = append(r.Items, Item{Start: len(r.Text), Version: len(r.Versions)})
}

// Reset empties a result.
func (r *Result) Reset() {
	r.Text, r.Versions, r.Items = r.Text[:0], r.Versions[:0], r.Items[:0]
	clear(r.Read)
	r.Calls, r.ReadTs = 0, 0
}

// Printf adds to the text.
func (r *Result) Printf(format string, args ...any) { r.Text = fmt.Appendf(r.Text, format, args...) }

// Kind is the kind of a call.
type Kind int

// The kinds of calls.
const (
	Begin Kind = iota
	Get
	Set
	Delete
	Iterate
	KeyIterate
	Commit
	Discard
	Batch
	Update
	Reopen
	DropPrefix
	DropAll
	Sync
	SetDiscard
	Sequence
	Release
)

var kindNames = [...]string{
	"Begin", "Get", "Set", "Delete", "Iterate", "KeyIterate", "Commit", "Discard", "Batch", "Update",
	"Reopen", "DropPrefix", "DropAll", "Sync", "SetDiscard",
	"Sequence", "Release",
}

func (k Kind) String() string { return kindNames[k] }

// Write is one write of a call.
type Write struct {
	Key, Value []byte
	Meta       byte
	Expires    uint64 // Unix seconds; 0 is never
	OnlyLatest bool   // WithDiscard
	Delete     bool
	Version    uint64 // in a managed batch
}

// Move is one move of an iterator, to a key or its start, and steps after it.
type Move struct {
	Rewind bool
	Seek   []byte
	Steps  int
}

// Op is one call.
type Op struct {
	Kind Kind
	Slot int // of the transaction, or of a sequence

	Update  bool    // Begin: a transaction that writes
	Key     []byte  // Get, KeyIterate
	Write   Write   // Set, Delete
	Version uint64  // managed: to read or commit at
	Writes  []Write // Batch, Update; Iterate: between NewIterator and the moves
	Gets    [][]byte
	Fail    bool // Update: its function returns an error; Batch: it is cancelled
	Async   bool // Commit: by CommitWith
	AtEach  bool // Batch, managed: versions of its writes, not one of the batch

	Prefix      []byte   // Iterate
	Prefixes    [][]byte // DropPrefix
	Reverse     bool
	AllVersions bool
	KeysOnly    bool
	Since       uint64
	Moves       []Move
}

// String describes a write, of a long value only its length.
func (w Write) String() string {
	value := fmt.Sprintf("%x", w.Value)
	if len(w.Value) > 8 {
		value = fmt.Sprintf("%d bytes", len(w.Value))
	}
	if w.Delete {
		value = "deleted"
	}
	return fmt.Sprintf("%x = %s meta %d until %d latest %v at %d", w.Key, value, w.Meta, w.Expires, w.OnlyLatest, w.Version)
}

// String describes a move.
func (m Move) String() string {
	if m.Rewind {
		return fmt.Sprintf("rewind %d", m.Steps)
	}
	return fmt.Sprintf("seek %x %d", m.Seek, m.Steps)
}

func (op *Op) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v slot %d", op.Kind, op.Slot)
	switch op.Kind {
	case Begin:
		fmt.Fprintf(&s, " update %v at %d", op.Update, op.Version)
	case Get, KeyIterate:
		fmt.Fprintf(&s, " %x", op.Key)
	case Set, Delete:
		fmt.Fprintf(&s, " %v", op.Write)
	case Commit, SetDiscard:
		fmt.Fprintf(&s, " at %d async %v", op.Version, op.Async)
	case Batch, Update:
		fmt.Fprintf(&s, " at %d fail %v gets %x", op.Version, op.Fail, op.Gets)
	case DropPrefix:
		fmt.Fprintf(&s, " %x", op.Prefixes)
	}
	if op.Kind == Iterate || op.Kind == KeyIterate {
		fmt.Fprintf(&s, " prefix %x reverse %v all %v keysonly %v since %d moves %v",
			op.Prefix, op.Reverse, op.AllVersions, op.KeysOnly, op.Since, op.Moves)
	}
	for i := range op.Writes {
		fmt.Fprintf(&s, "\n\t%v", op.Writes[i])
	}
	return s.String()
}

// Slots is how many transactions are open at a time.
const Slots = 4

// Generator makes the calls of one program.
type Generator struct {
	rand    *rand.Rand
	managed bool
	drops   bool // the program has drops, after which there are no calls that show old versions:
	dropped bool // a drop of a part compacts the rest, and so Badger loses old versions and deletes
	keys    [][]byte
	open    [Slots]bool
	updates [Slots]bool
	// Newest is the greatest version so far, by which versions to read at are chosen. Whoever runs
	// the program sets it.
	Newest uint64
	// Now is the time by which expiry is chosen, so that nothing expires during the run.
	Now uint64
}

// NewGenerator returns a generator. The same seed gives the same program, as long as Newest and Now
// are set alike.
func NewGenerator(seed uint64, managed bool) *Generator {
	g := &Generator{rand: rand.New(rand.NewPCG(seed, 1)), managed: managed}
	g.drops = g.rand.IntN(4) == 0
	for range 40 + g.rand.IntN(200) {
		g.keys = append(g.keys, g.newKey())
	}
	return g
}

// newKey favours what sorts in odd ways: zeros, ones, 0xff, and keys that begin with another.
func (g *Generator) newKey() []byte {
	alphabet := []byte{'a', 'b', 'a', 'b', 0x00, 0x01, 0xfe, 0xff}
	if len(g.keys) > 0 && g.rand.IntN(3) == 0 {
		k := append([]byte{}, g.key()...)
		return append(k, alphabet[g.rand.IntN(len(alphabet))])
	}
	k := make([]byte, 1+g.rand.IntN(5))
	for i := range k {
		k[i] = alphabet[g.rand.IntN(len(alphabet))]
	}
	return k
}

func (g *Generator) key() []byte { return g.keys[g.rand.IntN(len(g.keys))] }

// badKey is a key that both must refuse.
func (g *Generator) badKey() []byte {
	if g.rand.IntN(2) == 0 {
		return nil
	}
	return []byte("!badger!x")
}

func (g *Generator) prefix() []byte {
	k := g.key()
	return k[:g.rand.IntN(len(k)+1)]
}

func (g *Generator) value() []byte {
	n := g.rand.IntN(40)
	switch g.rand.IntN(20) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		n = g.rand.IntN(3000)
	}
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(g.rand.Uint32())
	}
	return v
}

func (g *Generator) write() Write {
	w := Write{Key: g.key()}
	if g.rand.IntN(300) == 0 {
		w.Key = g.badKey()
	}
	if g.managed {
		w.Version = g.version()
	}
	if g.rand.IntN(5) == 0 {
		w.Delete = true
		return w
	}
	w.Value = g.value()
	switch g.rand.IntN(12) {
	case 0:
		w.Meta = byte(g.rand.Uint32())
	case 1:
		w.Expires = g.Now + 1e6
	case 2:
		w.Expires = g.Now - 1e6
	case 3:
		w.OnlyLatest = true
	}
	return w
}

// version is one to write or read at: mostly near the newest, in any order.
func (g *Generator) version() uint64 {
	switch g.rand.IntN(10) {
	case 0:
		return 1 + g.rand.Uint64N(g.Newest+2)
	case 1, 2, 3:
		return max(1, g.Newest-min(g.Newest, g.rand.Uint64N(20)))
	default:
		return g.Newest + 1 + g.rand.Uint64N(3)
	}
}

func (g *Generator) readVersion() uint64 {
	switch g.rand.IntN(10) {
	case 0:
		return 1 + g.rand.Uint64N(g.Newest+2)
	case 1:
		return 1<<64 - 1
	default:
		return max(1, g.Newest-min(g.Newest, g.rand.Uint64N(4)))
	}
}

// Next returns the next call.
func (g *Generator) Next() *Op {
	r := g.rand.IntN(1000)
	slot := g.rand.IntN(Slots)
	switch {
	case r < 1:
		g.endAll()
		return &Op{Kind: Reopen}
	case r < 5 && g.drops:
		g.endAll()
		g.dropped = true
		op := &Op{Kind: DropPrefix}
		for range 1 + g.rand.IntN(3) {
			k := g.key()
			k = k[:1+g.rand.IntN(min(2, len(k)))]
			if k[len(k)-1] == 0xff { // Badger drops the key before the 0xff, too
				k = k[:1]
			}
			op.Prefixes = append(op.Prefixes, k)
		}
		return op
	case r < 6 && g.drops:
		g.endAll()
		return &Op{Kind: DropAll}
	case r < 8:
		return &Op{Kind: Sync}
	case r < 10 && g.managed:
		return &Op{Kind: SetDiscard, Version: 0}
	case r < 13 && !g.managed:
		return &Op{Kind: Release, Slot: slot}
	case r < 20 && !g.managed:
		return &Op{Kind: Sequence, Slot: slot}
	case r < 40:
		return g.Batch()
	case r < 70 && !g.managed:
		return g.update()
	}
	if !g.open[slot] {
		op := &Op{Kind: Begin, Slot: slot, Update: g.rand.IntN(3) > 0}
		if g.managed {
			op.Version = g.readVersion()
		}
		g.open[slot], g.updates[slot] = true, op.Update
		return op
	}
	return g.inTxn(slot)
}

// inTxn returns a call of an open transaction.
func (g *Generator) inTxn(slot int) *Op {
	switch r := g.rand.IntN(100); {
	case r < 35:
		op := &Op{Kind: Get, Slot: slot, Key: g.key()}
		if g.rand.IntN(200) == 0 {
			op.Key = nil
		}
		return op
	case r < 65:
		op := &Op{Kind: Set, Slot: slot, Write: g.write()}
		if op.Write.Delete {
			op.Kind = Delete
		}
		return op
	case r < 80:
		return g.iterate(slot)
	case r < 83 && !g.dropped:
		op := g.iterate(slot)
		op.Kind, op.Key, op.Prefix, op.AllVersions = KeyIterate, g.key(), nil, true
		for i := range op.Moves {
			op.Moves[i].Seek = op.Key
		}
		g.walkAll(op)
		return op
	case r < 96:
		g.open[slot] = false
		op := &Op{Kind: Commit, Slot: slot, Async: g.rand.IntN(4) == 0}
		if g.managed {
			op.Version = g.version()
		}
		return op
	default:
		g.open[slot] = false
		return &Op{Kind: Discard, Slot: slot}
	}
}

func (g *Generator) iterate(slot int) *Op {
	op := &Op{
		Kind: Iterate, Slot: slot,
		Reverse:     g.rand.IntN(2) == 0,
		AllVersions: g.rand.IntN(4) == 0 && !g.dropped,
		KeysOnly:    g.rand.IntN(3) == 0,
	}
	if g.rand.IntN(2) == 0 {
		op.Prefix = g.prefix()
	}
	if g.rand.IntN(8) == 0 && !g.dropped {
		op.Since = g.rand.Uint64N(g.Newest + 1)
	}
	for range 1 + g.rand.IntN(3) {
		m := Move{Steps: g.rand.IntN(12)}
		if g.rand.IntN(4) == 0 {
			m.Rewind = true
			m.Steps = g.rand.IntN(60)
		} else {
			m.Seek = g.seek(op.Prefix)
		}
		op.Moves = append(op.Moves, m)
	}
	g.walkAll(op)
	if g.updates[slot] && g.rand.IntN(6) == 0 {
		for range 1 + g.rand.IntN(4) {
			op.Writes = append(op.Writes, g.write())
		}
	}
	return op
}

// walkAll has the moves of an iterator over all versions go to the end, as the two may have different
// numbers of old versions.
func (g *Generator) walkAll(op *Op) {
	if op.AllVersions && !g.managed {
		for i := range op.Moves {
			op.Moves[i].Steps = 1 << 30
		}
	}
}

// seek is a key to seek that begins with the prefix of the iterator. Outside of it Badger's answer
// depends on which tables it has.
func (g *Generator) seek(prefix []byte) []byte {
	key := g.key()
	for i := 0; i < 20 && !bytes.HasPrefix(key, prefix); i++ {
		key = g.key()
	}
	if !bytes.HasPrefix(key, prefix) {
		key = prefix
	}
	key = bytes.Clone(key[:len(prefix)+g.rand.IntN(len(key)-len(prefix)+1)])
	if g.rand.IntN(3) == 0 {
		key = append(key, 0xff)
	}
	return key
}

// Batch returns a batch.
func (g *Generator) Batch() *Op {
	op := &Op{Kind: Batch, Fail: g.rand.IntN(10) == 0}
	if g.managed {
		op.Version = g.version()
		op.AtEach = g.rand.IntN(2) == 0
	}
	for range 1 + g.rand.IntN(20) {
		w := g.write()
		// Of two writes of one key at one version, with one at another version between them, Badger
		// keeps the first.
		same := func(o Write) bool { return bytes.Equal(o.Key, w.Key) && o.Version == w.Version }
		if op.AtEach && slices.ContainsFunc(op.Writes, same) {
			continue
		}
		op.Writes = append(op.Writes, w)
	}
	return op
}

func (g *Generator) update() *Op {
	op := &Op{Kind: Update, Fail: g.rand.IntN(10) == 0}
	for range g.rand.IntN(4) {
		op.Gets = append(op.Gets, g.key())
	}
	for range g.rand.IntN(4) {
		op.Writes = append(op.Writes, g.write())
	}
	return op
}

// End tells the generator that a transaction was discarded.
func (g *Generator) End(slot int) { g.open[slot] = false }

func (g *Generator) endAll() { g.open = [Slots]bool{} }
