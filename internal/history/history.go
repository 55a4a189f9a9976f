// Package history judges what concurrent transactions have read and appended:
// it finds the anomalies that their isolation level forbids, and holds the
// textbook ones as cases to run. Only tests use it.
//
// The histories are of lists: a transaction appends unique numbers to lists, one
// list a key, and reads whole lists. A list shows the order in which it was
// written, so the order of all versions follows from the reads alone, and with
// it who must have come before whom (Kingsbury and Alvaro, "Elle", VLDB 2020).
// A store of plain values takes part by reading a list and writing it longer;
// an absent key is the empty list, so a scanned range is a read of each key that
// could be in it.
package history

import "sync"

// Status is what the client knows of a transaction's end.
type Status uint8

// The ends. A transaction whose end is unknown (its Commit was interrupted by a
// crash, say) counts as committed if one of its appends was read by another.
const (
	Unknown Status = iota
	Committed
	Aborted
)

// Op is one operation: an append of Value, or a read that returned List.
type Op struct {
	Key   string
	Read  bool
	Value int   // appended to Key; unique among the appends to it
	List  []int // what was read; the transaction's own appends are in it
}

// Append is an operation that appends value to the list of key.
func Append(key string, value int) Op { return Op{Key: key, Value: value} }

// Read is an operation that read the list of key.
func Read(key string, list ...int) Op { return Op{Key: key, Read: true, List: list} }

// Txn is one transaction.
type Txn struct {
	Ops    []Op
	Status Status
	Begin  int // point in time before its first operation
	End    int // point in time after its end; of no meaning if Status is Unknown
}

// Recorder collects transactions from many goroutines. Its clock counts begins
// and ends, so it orders just those transactions that did not overlap.
type Recorder struct {
	mu   sync.Mutex
	now  int
	txns []*Txn
}

// Begin records that a transaction begins; the caller adds to its Ops.
func (r *Recorder) Begin() *Txn {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	x := &Txn{Begin: r.now}
	r.txns = append(r.txns, x)
	return x
}

// End records that x has ended so; x must not be changed afterwards.
func (r *Recorder) End(x *Txn, s Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	x.End, x.Status = r.now, s
}

// History returns what was recorded, in order of the begins. Transactions
// without End are Unknown. All goroutines that record must have finished.
func (r *Recorder) History() []Txn {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := make([]Txn, len(r.txns))
	for i, x := range r.txns {
		h[i] = *x
	}
	return h
}
