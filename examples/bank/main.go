// Bank moves money between accounts, on many goroutines, while an auditor adds all accounts up. The
// sum never changes: not in any state that the auditor sees, and not after kill -9.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
)

const (
	accounts = 1000
	opening  = 100 // what each account has at first
)

func main() {
	dir := flag.String("dir", "bank.db", "directory of the store")
	last := flag.Duration("for", 10*time.Second, "how long to run")
	workers := flag.Int("workers", 32, "goroutines that transfer money")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *last)
	defer cancel()
	if err := run(ctx, *dir, *workers); err != nil {
		log.Fatal(err)
	}
}

// run opens the bank, checks its books, and does business until ctx ends.
func run(ctx context.Context, dir string, workers int) error {
	db, err := brock.Open(brock.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer db.Close()
	b, err := openBank(db)
	if err != nil {
		return err
	}
	n, err := b.audit()
	if err != nil {
		return err
	}
	fmt.Printf("opened: the books are right, after %d transfers\n", n)
	return b.trade(ctx, workers)
}

// bank is a store with accounts, and a ledger of all transfers.
type bank struct {
	db               *brock.DB
	accounts, ledger *brock.Keyspace
	transfers        atomic.Int64 // since the start
}

func openBank(db *brock.DB) (*bank, error) {
	b := &bank{db: db}
	var err error
	if b.accounts, err = db.Keyspace("accounts"); err != nil {
		return nil, err
	}
	if b.ledger, err = db.Keyspace("ledger"); err != nil {
		return nil, err
	}
	// All accounts or none: a bank that dies here begins anew at the next start.
	err = b.accounts.Update(func(txn *brock.Txn) error {
		if found, err := txn.Has(number(0)); found || err != nil {
			return err
		}
		for i := range uint64(accounts) {
			if err := txn.Set(number(i), number(opening)); err != nil {
				return err
			}
		}
		return nil
	})
	return b, err
}

// transfer moves an amount, and enters it in the ledger, or does nothing if there is not enough. A
// transaction is Serializable by default: if another one has changed an account that this one has
// read, Update runs the function again.
func (b *bank) transfer(ctx context.Context, id []byte, from, to, amount uint64) (done bool, err error) {
	err = b.db.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		done = false
		money := txn.In(b.accounts)
		has, err := balance(money, from)
		if err != nil || has < amount {
			return err
		}
		// Written before the other account is read, which may be the same one.
		if err := money.Set(number(from), number(has-amount)); err != nil {
			return err
		}
		has, err = balance(money, to)
		if err != nil {
			return err
		}
		if err := money.Set(number(to), number(has+amount)); err != nil {
			return err
		}
		done = true
		return txn.In(b.ledger).Set(id, append(append(number(from), number(to)...), number(amount)...))
	})
	return done, err
}

func balance(txn *brock.Txn, account uint64) (uint64, error) {
	item, err := txn.Get(number(account))
	if err != nil {
		return 0, fmt.Errorf("account %d: %w", account, err)
	}
	value, err := item.Value()
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// audit compares the accounts with the ledger and with the money there was at first, all as of one
// version of the store, and returns how many transfers there were. It reads while others write, and
// neither waits for the other.
func (b *bank) audit() (transfers int, err error) {
	err = b.db.View(func(txn *brock.Txn) error {
		transfers = 0
		should := make([]uint64, accounts)
		for i := range should {
			should[i] = opening
		}
		for item, err := range txn.In(b.ledger).All() {
			if err != nil {
				return err
			}
			entry, err := item.Value()
			if err != nil {
				return err
			}
			amount := binary.BigEndian.Uint64(entry[16:])
			should[binary.BigEndian.Uint64(entry)] -= amount
			should[binary.BigEndian.Uint64(entry[8:])] += amount
			transfers++
		}
		var sum, n uint64
		for item, err := range txn.In(b.accounts).All() {
			if err != nil {
				return err
			}
			value, err := item.Value()
			if err != nil {
				return err
			}
			account, has := binary.BigEndian.Uint64(item.Key()), binary.BigEndian.Uint64(value)
			if has != should[account] {
				return fmt.Errorf("account %d has %d, and the ledger says %d", account, has, should[account])
			}
			sum, n = sum+has, n+1
		}
		if sum != accounts*opening || n != accounts {
			return fmt.Errorf("%d accounts have %d in all, and should have %d", n, sum, accounts*opening)
		}
		return nil
	})
	return transfers, err
}

// trade transfers money on workers goroutines, and audits all the time, until ctx ends.
func (b *bank) trade(ctx context.Context, workers int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				// A random number of 128 bits: no two transfers have the same one.
				id := append(number(rand.Uint64()), number(rand.Uint64())...)
				done, err := b.transfer(ctx, id, rand.Uint64N(accounts), rand.Uint64N(accounts), 1+rand.Uint64N(50))
				switch {
				case err == nil && done:
					b.transfers.Add(1)
				case err != nil && ctx.Err() == nil:
					stop(err)
				}
			}
		})
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	begin, audits := time.Now(), 0
	for ctx.Err() == nil {
		n, err := b.audit()
		if err != nil {
			stop(err)
			break
		}
		audits++
		select {
		case <-tick.C:
			fmt.Printf("%d transfers in the ledger, %.0f a second; %d audits, all right\n", n, float64(b.transfers.Load())/time.Since(begin).Seconds(), audits)
		default:
		}
	}
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	n, err := b.audit()
	if err == nil {
		fmt.Printf("closed: the books are right, after %d transfers and %d audits\n", n, audits+1)
	}
	return err
}

// number is a number as keys and values have it here.
func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
