package trial

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
)

// The bank has customers with two accounts each, and a till for each teller. A
// teller takes money from either account of a customer as long as the two
// together hold it, and pays from the till into another. Money is neither made
// nor lost, and no customer is ever in debt: that is only so if transactions are
// serializable, for two tellers who see the same two accounts write different ones.
const (
	tellers   = 8
	customers = 24
	deposit   = 1000 // on each account at first
	most      = 1500 // that a teller takes at once
)

// updated is the result of the step of updates.
type updated struct {
	Goroutines int           `json:"goroutines"`
	Commits    int64         `json:"commits"`
	Conflicts  int64         `json:"conflicts"`
	Audits     int64         `json:"audits"`
	Took       time.Duration `json:"nanoseconds"`
}

func (u updated) String() string {
	return fmt.Sprintf("%d goroutines move money in serializable transactions: %s;%s%s conflicts run again; the books balanced in all of %s audits",
		u.Goroutines, human.Rate(u.Commits, "commits", u.Took), indent, human.Count(u.Conflicts), human.Count(u.Audits))
}

func account(customer, n int) []byte {
	return fmt.Appendf(nil, "%sbank/account/%03d/%d", reserved, customer, n)
}

func till(teller int) []byte { return fmt.Appendf(nil, "%sbank/till/%03d", reserved, teller) }

// update runs tellers and an auditor for a while.
func (t *trial) update() (fmt.Stringer, error) {
	if err := t.db.Update(openBank); err != nil {
		return nil, err
	}
	before := t.db.Metrics()
	begin := time.Now()
	ctx, stop := context.WithTimeout(t.ctx, t.Updates)
	defer stop()
	var audits atomic.Int64
	err := together(tellers+1, func(i int) error {
		if i == tellers {
			return t.audits(ctx, &audits)
		}
		return t.teller(ctx, i)
	})
	if err = errors.Join(err, t.ctx.Err(), t.db.View(audit)); err != nil {
		return nil, err
	}
	after := t.db.Metrics()
	return updated{tellers, after.Commits - before.Commits, after.Conflicts - before.Conflicts, audits.Load() + 1, time.Since(begin)}, nil
}

func openBank(txn *brock.Txn) error {
	for c := range customers {
		for n := range 2 {
			if err := setAmount(txn, account(c, n), deposit); err != nil {
				return err
			}
		}
	}
	for i := range tellers {
		if err := setAmount(txn, till(i), 0); err != nil {
			return err
		}
	}
	return nil
}

// teller runs transactions until ctx ends.
func (t *trial) teller(ctx context.Context, i int) error {
	random := rand.New(rand.NewPCG(t.Seed, uint64(100+i)))
	options := brock.TxnOptions{Durability: brock.Buffered}
	for ctx.Err() == nil {
		from, n, amount, to := random.IntN(customers), random.IntN(2), 1+random.Int64N(most), random.IntN(customers)
		// The transactions live on t.ctx: what has begun is completed.
		err := t.db.UpdateContext(t.ctx, options, func(txn *brock.Txn) error {
			if random.IntN(2) == 0 {
				return payIn(txn, till(i), account(to, n))
			}
			return takeOut(txn, from, n, amount, till(i))
		})
		if err != nil && !errors.Is(err, brock.ErrConflict) { // a conflict many times in a row; the next customer, please
			return err
		}
	}
	return nil
}

// takeOut moves an amount from one of a customer's accounts to the till.
func takeOut(txn *brock.Txn, customer, n int, amount int64, till []byte) error {
	var balance [2]int64
	for i := range balance {
		var err error
		if balance[i], err = amountOf(txn, account(customer, i)); err != nil {
			return err
		}
	}
	if balance[0]+balance[1] < amount {
		return nil
	}
	if err := setAmount(txn, account(customer, n), balance[n]-amount); err != nil {
		return err
	}
	return add(txn, till, amount)
}

// payIn moves all that is in the till to an account.
func payIn(txn *brock.Txn, till, account []byte) error {
	amount, err := amountOf(txn, till)
	if err != nil || amount == 0 {
		return err
	}
	return errors.Join(setAmount(txn, till, 0), add(txn, account, amount))
}

func add(txn *brock.Txn, key []byte, amount int64) error {
	had, err := amountOf(txn, key)
	if err != nil {
		return err
	}
	return setAmount(txn, key, had+amount)
}

func amountOf(txn *brock.Txn, key []byte) (int64, error) {
	item, err := txn.Get(key)
	if err != nil {
		return 0, err
	}
	value, err := item.Value()
	if err == nil && len(value) != 8 {
		err = wrong("%q holds %d bytes", key, len(value))
	}
	if err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(value)), nil
}

func setAmount(txn *brock.Txn, key []byte, amount int64) error {
	return txn.Set(key, binary.LittleEndian.AppendUint64(nil, uint64(amount)))
}

// audits audits until ctx ends.
func (t *trial) audits(ctx context.Context, n *atomic.Int64) error {
	for ctx.Err() == nil {
		if err := t.db.View(audit); err != nil {
			return err
		}
		n.Add(1)
	}
	return nil
}

// audit checks the books as one transaction sees them.
func audit(txn *brock.Txn) error {
	var sum int64
	for c := range customers {
		var owned int64
		for n := range 2 {
			amount, err := amountOf(txn, account(c, n))
			if err != nil {
				return err
			}
			owned += amount
		}
		if owned < 0 {
			return wrong("customer %d of the bank owns %d: transactions were not serializable", c, owned)
		}
		sum += owned
	}
	for i := range tellers {
		amount, err := amountOf(txn, till(i))
		if err != nil {
			return err
		}
		sum += amount
	}
	if sum != 2*customers*deposit {
		return wrong("the bank holds %d, and should hold %d", sum, 2*customers*deposit)
	}
	return nil
}
