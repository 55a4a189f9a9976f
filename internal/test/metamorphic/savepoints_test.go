package metamorphic

import (
	"errors"
	"strings"

	"github.com/brockdb/brock"
)

// savedPoint is a savepoint of an open transaction, behind so many writes.
type savedPoint struct {
	brock.Savepoint
	wrote int
}

func (w *world) savepoint(x *openTxn) {
	w.note("txn at %d: savepoint %d behind %d writes", x.at, len(x.points), len(x.wrote))
	x.points = append(x.points, savedPoint{x.txn.Savepoint(), len(x.wrote)})
}

func (w *world) rollback(x *openTxn) {
	if len(x.points) == 0 {
		return
	}
	i := w.rng.IntN(len(x.points))
	w.note("txn at %d: roll back %d writes to savepoint %d", x.at, len(x.wrote)-x.points[i].wrote, i)
	err := x.txn.RollbackTo(x.points[i].Savepoint)
	if errors.Is(err, brock.ErrInvalid) && strings.Contains(err.Error(), "files") {
		w.note("its writes are in files")
		return // all are there
	}
	w.must("roll back", err)
	for _, ended := range x.points[i+1:] {
		if err := x.txn.RollbackTo(ended.Savepoint); !errors.Is(err, brock.ErrInvalid) {
			w.fatalf("rolled back to a savepoint that has ended: %v", err)
		}
	}
	x.points, x.wrote = x.points[:i+1], x.wrote[:x.points[i].wrote]
	x.m.Undo(len(x.wrote))
}

// lock locks a key: the model reads it and writes it again.
func (w *world) lock(x *openTxn) {
	k := w.key()
	if e, found := w.m.Newest(k, x.at); found && (w.hazy(e) || len(e.Value) >= 1<<20) {
		return
	}
	w.note("txn at %d: lock %.10q", x.at, k)
	err := x.txn.Lock([]byte(k))
	if x.isolation == brock.LastWriterWins {
		if !errors.Is(err, brock.ErrInvalid) {
			w.fatalf("lock without isolation: %v", err)
		}
		return
	}
	w.must("lock", err)
	if m, wrote := x.m.Lock(k, uint64(w.now)); wrote {
		x.wrote = append(x.wrote, m)
	}
}
