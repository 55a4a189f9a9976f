package trial

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
)

// killed is the result of the step of kills.
type killed struct {
	Writing      int           `json:"killedWhileWriting"`
	InRecovery   int           `json:"killedInRecovery"`
	Acknowledged int           `json:"acknowledgedCommits"`
	Unannounced  int           `json:"unacknowledgedCommits"` // there as a whole, but killed before it was said
	Open         time.Duration `json:"slowestOpenNanoseconds"`
	ReadOnly     time.Duration `json:"slowestReadOnlyOpenNanoseconds"`
}

func (k killed) String() string {
	return fmt.Sprintf("%s killed while they wrote, %d while they recovered:%s"+
		"all %s synced commits that they acknowledged are there, none in half%s"+
		"(and %d whole ones that they had no time to acknowledge);%s"+
		"reopened in %s, read-only in %s at most",
		human.Things(int64(k.Writing), "process"), k.InRecovery, indent, human.Count(int64(k.Acknowledged)), indent, k.Unannounced, indent,
		human.Duration(k.Open), human.Duration(k.ReadOnly))
}

// maxLife bounds the random time that a process writes before it is killed.
const maxLife = 600 * time.Millisecond

// kill kills processes at random moments while they write, after every second one
// another while it recovers, and looks at what they leave.
func (t *trial) kill() (fmt.Stringer, error) {
	if err := t.close(); err != nil {
		return nil, err
	}
	work := t.Progress.Start("kill", 0)
	defer work.End()
	k := &kills{random: rand.New(rand.NewPCG(t.Seed, 2))}
	for round := range t.Rounds {
		k.Writing++
		if err := t.killOne(k, (*victim).acknowledges, maxLife); err != nil {
			return nil, err
		}
		if round%2 == 1 {
			k.InRecovery++
			if err := t.killOne(k, (*victim).opens, k.Open); err != nil {
				return nil, err
			}
		}
		if err := t.examine(k); err != nil {
			return nil, err
		}
	}
	_, err := t.open(brock.ReadWrite)
	return k.killed, err
}

// kills are the processes killed so far.
type kills struct {
	killed
	last   [][writers]int // the commits that each process acknowledged last
	random *rand.Rand
}

// killOne starts a process, and kills it at a random moment within a while after
// an event.
func (t *trial) killOne(k *kills, event func(*victim) <-chan struct{}, within time.Duration) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	v, err := startVictim(t.Writer(t.Dir, len(k.last), t.Seed))
	if err != nil {
		return err
	}
	last, err := v.kill(event(v), time.Duration(k.random.Int64N(int64(within))))
	k.last = append(k.last, last)
	for _, n := range last {
		k.Acknowledged += n
	}
	return err
}

// examine opens the store, first read-only and then to recover it, and compares
// what is there with what was acknowledged.
func (t *trial) examine(k *kills) error {
	check := func() error { return t.checkLedgers(k) }
	took, err := t.lookReadOnly(check)
	if err != nil {
		return err
	}
	k.ReadOnly = max(k.ReadOnly, took)
	if took, err = t.open(brock.ReadWrite); err != nil {
		return err
	}
	k.Open = max(k.Open, took)
	if err := check(); err != nil {
		return err
	}
	return t.close()
}

// checkLedgers also counts the commits that are there without acknowledgement.
func (t *trial) checkLedgers(k *kills) error {
	k.Unannounced = 0
	return t.db.ViewContext(t.ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		for round, last := range k.last {
			for writer, acknowledged := range last {
				n, err := ledger{round: round, writer: writer, seed: t.Seed}.check(txn, acknowledged)
				if err != nil {
					return err
				}
				k.Unannounced += n - acknowledged
			}
		}
		return nil
	})
}
