package pending

import (
	"testing"

	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/txn/commit"
)

// TestSavepointsAndSteps: behind one savepoint, steps on a key are kept once, and what a Rollback forgets
// is not in the operation that stays. It would find a copy of all steps for each further one, and memory
// that is not counted: a transaction could take any amount of it beside its limit.
func TestSavepointsAndSteps(t *testing.T) {
	w, c := &Writes{Indexed: true}, testEncoder()
	apply := func(n int) {
		for i := range n {
			op := [...]commit.Op{commit.OpAdd, commit.OpMax}[i%2] // two that don't become one
			assert.OK(t, w.Apply(c, []byte("key"), commit.Step{Op: op, Operand: make([]byte, 8)}, nil))
		}
	}
	apply(10)
	m := w.Mark()
	apply(100)
	assert.Equal(t, "operations", len(w.ops), 2)
	// Each step takes 40 bytes, and the copy has those before the mark.
	if got, least := w.BytesInMemory(), int64(120*40); got < least || got > 2*least {
		t.Errorf("%d bytes, of %d steps", got, 120)
	}
	later := w.Mark()
	apply(1)
	assert.Equal(t, "operations", len(w.ops), 3)
	assert.Equal(t, "rolled back", w.Rollback(later), true)
	apply(2)
	apply(2)
	assert.Equal(t, "operations", len(w.ops), 3)
	assert.Equal(t, "rolled back", w.Rollback(m), true)
	_, records := w.Payload()
	ops := w.Operations()
	if len(ops) != 1 || len(ops[0].Steps) != 10 || records != 0 {
		t.Errorf("%d operations, %d records", len(ops), records)
	}
}
