package txn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// number is n as operations have it.
func number(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

// none is a base that is missing.
const none = "none"

var operationTable = []struct {
	op                    brock.Op
	base, operand, result string // result: none for no value, "!" for ErrInvalid
}{
	{brock.OpAdd, none, string(number(5)), string(number(5))},
	{brock.OpAdd, string(number(7)), string(number(-9)), string(number(-2))},
	{brock.OpAdd, string(number(1<<63 - 1)), string(number(1)), string(number(-1 << 63))},
	{brock.OpAdd, "seven b", string(number(1)), "!"},
	{brock.OpAdd, "", string(number(1)), "!"},
	{brock.OpMin, none, string(number(-3)), string(number(-3))},
	{brock.OpMin, string(number(-4)), string(number(3)), string(number(-4))},
	{brock.OpMin, string(number(4)), string(number(-3)), string(number(-3))},
	{brock.OpMax, none, string(number(-3)), string(number(-3))},
	{brock.OpMax, string(number(-4)), string(number(3)), string(number(3))},
	{brock.OpMax, string(number(4)), string(number(-3)), string(number(4))},
	{brock.OpMax, "nine byte", string(number(1)), "!"},
	{brock.OpOr, none, "\x0f\x01", "\x0f\x01"},
	{brock.OpOr, "\xf0\x01", "\x0f\x10", "\xff\x11"},
	{brock.OpOr, "\xf0", "\x0f\x10", "!"},
	{brock.OpAnd, none, "\x0f\x01", "\x0f\x01"},
	{brock.OpAnd, "\xfc\x01", "\x0f\x11", "\x0c\x01"},
	{brock.OpAnd, "abc", "ab", "!"},
	{brock.OpAppend, none, "ab", "ab"},
	{brock.OpAppend, none, "", ""},
	{brock.OpAppend, "ab", "cd", "abcd"},
	{brock.OpAppend, strings.Repeat("x", brock.MaxOperand-1), "y", strings.Repeat("x", brock.MaxOperand-1) + "y"},
	{brock.OpAppend, strings.Repeat("x", brock.MaxOperand), "y", "!"},
	{brock.OpAppend, strings.Repeat("x", brock.MaxOperand+1), "", "!"},
	{brock.OpClearIf, none, "a", none},
	{brock.OpClearIf, "a", "a", none},
	{brock.OpClearIf, "", "", none},
	{brock.OpClearIf, "b", "a", "b"},
	{brock.OpClearIf, strings.Repeat("x", 3<<20), "a", strings.Repeat("x", 3<<20)},
}

// TestOperations applies each operation to bases of all kinds: committed or of the transaction itself.
// It would find a wrong result, a transaction that shows another result than it commits, and an
// ErrInvalid that has written something.
func TestOperations(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	for i, c := range operationTable {
		for _, where := range []string{"committed", "flushed", "set before", "seen before"} {
			what := fmt.Sprintf("%d: %v, %s", i, c.op, where)
			key, beside := fmt.Appendf(nil, "%d %s", i, where), fmt.Appendf(nil, "%d %s, beside", i, where)
			if c.base != none && where != "set before" {
				assert.OK(t, db.Set(key, []byte(c.base)))
			}
			if where == "flushed" {
				assert.OK(t, db.Flush(t.Context()))
			}
			shown := none
			err := db.Update(func(txn *brock.Txn) error {
				if err := txn.Set(beside, nil); err != nil {
					return err
				}
				if where == "set before" && c.base != none {
					assert.OK(t, txn.Set(key, []byte(c.base)))
				}
				if err := txn.Apply(c.op, key, []byte(c.operand)); err != nil {
					return err
				}
				if where == "committed" || where == "flushed" {
					return nil
				}
				it, err := txn.Get(key)
				if err == nil {
					shown = string(assert.Must(it.Value()))
				} else if err != brock.ErrKeyNotFound {
					return err
				}
				return nil
			})
			want := c.result
			if want == "!" {
				assert.Error(t, what, err, brock.ErrInvalid)
				has := assert.Must(db.Has(beside))
				assert.Equal(t, what+": beside", has, false)
				want = c.base
				if where == "set before" {
					want = none
				}
				shown = want
			} else {
				assert.OK(t, err)
			}
			got, err := db.Get(key)
			if err == brock.ErrKeyNotFound {
				got = []byte(none)
			}
			assert.SameText(t, what, string(got), want)
			if strings.HasSuffix(where, "before") {
				assert.SameText(t, what+", shown", shown, want)
			}
		}
	}
}

// opValue is a value of the model of TestOperationsModel.
type opValue struct {
	value   string
	meta    byte
	expires int64 // Unix milliseconds; 0: never
	latest  bool
}

// TestOperationsModel does random writes, operations and reads, in transactions and batches, and compares
// each commit with a map. The stores flush, compact, are opened again, compress, separate and encrypt
// values; entries have metadata and expire. It would find an operation that used an old or foreign base,
// lost or kept metadata or expiry, was folded or replaced wrongly, or was left in place by a delete.
func TestOperationsModel(t *testing.T) {
	for _, separated := range []bool{false, true} {
		t.Run(fmt.Sprint("separated=", separated), func(t *testing.T) {
			r := draw.Rand(t)
			clock := storetest.NewClock(1_000_000)
			o := brock.Options{Dir: "db", FS: vfs.NewMem(), Keys: storetest.DrawKeys(t), Now: clock.Now, Durability: brock.Buffered, Tuning: brock.Tuning{MemtableSize: 64 << 10}}
			if o.KeyspaceDefaults.ValueThreshold = -1; separated {
				o.KeyspaceDefaults.ValueThreshold = 100
			}
			o.KeyspaceDefaults.CompressAbove, o.KeyspaceDefaults.Compression = 100, brock.Zstd
			db := assert.Must(brock.Open(o))
			defer func() { assert.OK(t, db.Close()) }()
			model := map[string]opValue{}
			committed := 0
			for step := range 3000 {
				switch r.IntN(60) {
				case 0:
					assert.OK(t, db.Flush(t.Context()))
				case 1:
					assert.OK(t, db.Compact(t.Context()))
				case 2:
					assert.OK(t, db.Close())
					db = assert.Must(brock.Open(o))
				case 3:
					clock.Add(time.Duration(r.IntN(500)) * time.Millisecond)
				}
				next, err := stepOperations(t, r, db, model, clock.Millis.Load())
				if err == nil {
					model = next
					committed++
				} else if !errors.Is(err, brock.ErrInvalid) {
					t.Fatalf("step %d: %v", step, err)
				}
				if got, want := showOpStore(t, db), showOpModel(model, clock.Millis.Load()); got != want {
					t.Fatalf("step %d (%v)\n got %s\nwant %s", step, err, got, want)
				}
			}
			if committed < 1000 {
				t.Errorf("only %d transactions were committed", committed)
			}
			assert.OK(t, db.Verify(t.Context(), nil))
		})
	}
}

// stepOperations does one random transaction, and returns the model after it, or its error.
func stepOperations(t *testing.T, r *rand.Rand, db *brock.DB, model map[string]opValue, now int64) (map[string]opValue, error) {
	model = maps.Clone(model)
	isolation := brock.Isolation(r.IntN(3))
	txn := assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: isolation}))
	defer txn.Discard()
	var failed error // of an operation; the commit must return it
	for range 1 + r.IntN(6) {
		key := string(rune('a' + r.IntN(5)))
		old, found := model[key]
		found = found && (old.expires == 0 || old.expires > now)
		switch r.IntN(12) {
		case 0:
			v := opValue{value: drawValue(r), meta: byte(r.IntN(3)), latest: r.IntN(4) == 0}
			e := &brock.Entry{Key: []byte(key), Value: []byte(v.value), Meta: v.meta, OnlyLatest: v.latest}
			if r.IntN(2) == 0 {
				v.expires = now + 1 + r.Int64N(1000)
				e.ExpiresAt = time.UnixMilli(v.expires)
			}
			assert.OK(t, txn.SetEntry(e))
			model[key] = v
		case 1:
			assert.OK(t, txn.Delete([]byte(key)))
			delete(model, key)
		case 2:
			hi := string(rune(key[0] + 1 + byte(r.IntN(3))))
			assert.OK(t, txn.DeleteRange([]byte(key), []byte(hi)))
			maps.DeleteFunc(model, func(k string, _ opValue) bool { return key <= k && k < hi })
		case 3:
			want := "-"
			if found {
				want = old.value
			}
			if got := storetest.Get(txn, key); got != want {
				t.Fatalf("%s: got %q, want %q", key, got, want)
			}
		case 4:
			var got []string
			for it, err := range txn.Items(brock.IteratorOptions{Lower: []byte(key), Reverse: r.IntN(2) == 0}) {
				assert.OK(t, err)
				got = append(got, string(it.Key())+showOp(opValue{string(assert.Must(it.Value())), it.Meta(), expiry(it), it.OnlyLatest()}))
			}
			slices.Sort(got)
			within := maps.Clone(model)
			maps.DeleteFunc(within, func(k string, _ opValue) bool { return k < key })
			if got, want := strings.Join(got, " "), showOpModel(within, now); got != want {
				t.Fatalf("own iterator\n got %s\nwant %s", got, want)
			}
		default:
			op, operand := brock.Op(1+r.IntN(7)), drawValue(r)
			if r.IntN(3) > 0 && found { // mostly one that fits
				operand = operand[:min(len(operand), len(old.value))] + strings.Repeat("!", max(0, len(old.value)-len(operand)))
				if op == brock.OpClearIf {
					operand = old.value
				}
			}
			if op <= brock.OpMax {
				operand = string(number(int64(r.IntN(100) - 50)))
			}
			result, ok := opModel(op, old.value, found, operand)
			err := txn.Apply(op, []byte(key), []byte(operand))
			if !ok {
				// At once for what the transaction has set, else by the commit.
				if err == nil {
					err = txn.Commit()
				}
				assert.Error(t, "wrong length", err, brock.ErrInvalid)
				return nil, errors.Join(err, failed)
			}
			assert.OK(t, err)
			switch {
			case result == none:
				delete(model, key)
			case !found:
				model[key] = opValue{value: result}
			default:
				old.value = result
				model[key] = old
			}
		}
	}
	return model, txn.Commit()
}

// opModel is what an operation gives, and whether it fits.
func opModel(op brock.Op, base string, found bool, operand string) (string, bool) {
	if !found {
		if op == brock.OpClearIf {
			return none, true
		}
		return operand, true
	}
	switch op {
	case brock.OpClearIf:
		if base == operand {
			return none, true
		}
		return base, true
	case brock.OpAppend:
		return base + operand, len(base)+len(operand) <= brock.MaxOperand
	}
	if len(base) != len(operand) {
		return "", false
	}
	out := []byte(base)
	for i := range out {
		if op == brock.OpOr {
			out[i] |= operand[i]
		} else if op == brock.OpAnd {
			out[i] &= operand[i]
		}
	}
	if op > brock.OpMax {
		return string(out), true
	}
	a, b := int64(binary.LittleEndian.Uint64([]byte(base))), int64(binary.LittleEndian.Uint64([]byte(operand)))
	return string(number(map[brock.Op]int64{brock.OpAdd: a + b, brock.OpMin: min(a, b), brock.OpMax: max(a, b)}[op])), true
}

// drawValue draws a value: a number, short, or long enough to be separated and compressed.
func drawValue(r *rand.Rand) string {
	switch r.IntN(4) {
	case 0:
		return string(number(r.Int64N(100)))
	case 1:
		return strings.Repeat(string(rune('p'+r.IntN(4))), r.IntN(4)*100)
	}
	return string(storetest.RandomBytes(r.IntN(1000), r.IntN(12)))
}

func expiry(it *brock.Item) int64 {
	if it.ExpiresAt().IsZero() {
		return 0
	}
	return it.ExpiresAt().UnixMilli()
}

func showOp(v opValue) string {
	if len(v.value) > 16 {
		v.value = fmt.Sprint(len(v.value), v.value[:4], v.value[len(v.value)-4:])
	}
	return fmt.Sprintf("=%q/%d/%d/%v", v.value, v.meta, v.expires, v.latest)
}

func showOpModel(model map[string]opValue, now int64) string {
	var out []string
	for k, v := range model {
		if v.expires == 0 || v.expires > now {
			out = append(out, k+showOp(v))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func showOpStore(t *testing.T, db *brock.DB) string {
	var out []string
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		for it, err := range txn.All() {
			assert.OK(t, err)
			out = append(out, string(it.Key())+showOp(opValue{string(assert.Must(it.Value())), it.Meta(), expiry(it), it.OnlyLatest()}))
		}
		return nil
	}))
	return strings.Join(out, " ")
}
