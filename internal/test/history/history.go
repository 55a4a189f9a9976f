// Package history checks what concurrent transactions have read and appended. It
// finds the anomalies that their isolation level forbids, and has the textbook
// anomalies as cases to run. Only tests use it.
//
// A transaction appends unique numbers to lists, one list a key, and reads whole
// lists. A list shows the order in which it was written. So the reads alone give
// the order of all versions, and with it which transaction must come before which
// (Kingsbury and Alvaro, "Elle", VLDB 2020). A store of plain values reads a list
// and writes it longer. An absent key is the empty list, so a scan of a range is a
// read of each key that could be in it.
package history

import "sync"

// Status is what the client knows about a transaction's end.
type Status uint8

// The values of Status. A transaction with status Unknown, as after a crash during
// its Commit, counts as committed if another one has read one of its appends.
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
	List  []int // what was read, with the transaction's own appends
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
	End    int // point in time after its end; not used if Status is Unknown
}

// Recorder collects transactions from many goroutines. Its clock counts begins and
// ends, so it orders transactions that did not overlap.
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

// End records the end of x. The caller must not change x afterwards.
func (r *Recorder) End(x *Txn, s Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	x.End, x.Status = r.now, s
}

// History returns the transactions in the order of their begins. Those without End
// are Unknown. All goroutines that record must have finished.
func (r *Recorder) History() []Txn {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := make([]Txn, len(r.txns))
	for i, x := range r.txns {
		h[i] = *x
	}
	return h
}
