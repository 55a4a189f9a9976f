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
	Rounds       int           `json:"rounds"`
	InRecovery   int           `json:"killedInRecovery"`
	Acknowledged int           `json:"acknowledgedCommits"`
	Unannounced  int           `json:"commitsWithoutAcknowledgement"` // there as a whole, but killed before it was told
	Writing      time.Duration `json:"writingNanoseconds"`
	Reopen       time.Duration `json:"slowestOpenNanoseconds"`
	ReadOnly     time.Duration `json:"slowestReadOnlyOpenNanoseconds"`
}

func (k killed) String() string {
	return fmt.Sprintf("a writing process %d times, %d more while it recovered: each of %s synced commits it%sacknowledged is there, none in half; %d more, whole; reopened in %s or less, read-only %s",
		k.Rounds, k.InRecovery, human.Count(int64(k.Acknowledged)), indent, k.Unannounced, human.Duration(k.Reopen), human.Duration(k.ReadOnly))
}

// maxLife bounds the random time that a process writes before it is killed.
const maxLife = 600 * time.Millisecond

// kill kills writing processes at random moments, every second one a second time
// while it recovers, and looks at what they leave.
func (t *trial) kill() (fmt.Stringer, error) {
	if err := t.close(); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(t.Seed, 2))
	work := t.Progress.Start("kill", 0)
	defer work.End()
	k := killed{Rounds: t.Rounds}
	var acknowledged [][writers]int
	for round := range t.Rounds {
		if err := t.ctx.Err(); err != nil {
			return nil, err
		}
		last, err := t.killWhileWriting(&k, round, random)
		if err != nil {
			return nil, err
		}
		if round%2 == 1 {
			if err := t.killInRecovery(&k, random); err != nil {
				return nil, err
			}
		}
		acknowledged = append(acknowledged, last)
		if err := t.examine(&k, acknowledged); err != nil {
			return nil, err
		}
	}
	_, err := t.open(brock.ReadWrite)
	return k, err
}

func (t *trial) killWhileWriting(k *killed, round int, random *rand.Rand) (acknowledged [writers]int, err error) {
	v, err := startVictim(t.Writer(t.Dir, round, t.Seed))
	if err != nil {
		return acknowledged, err
	}
	after := time.Duration(random.Int64N(int64(maxLife)))
	acknowledged, err = v.kill(v.acks, after)
	k.Writing += after
	for _, n := range acknowledged {
		k.Acknowledged += n
	}
	return acknowledged, err
}

// killInRecovery has a process begin to recover what the last one left, and kills
// it on the way; at the latest when it is done and writes, as a round of its own
// that nobody looks at.
func (t *trial) killInRecovery(k *killed, random *rand.Rand) error {
	v, err := startVictim(t.Writer(t.Dir, t.Rounds+k.InRecovery, t.Seed))
	if err != nil {
		return err
	}
	k.InRecovery++
	_, err = v.kill(v.opens, time.Duration(random.Int64N(int64(max(k.Reopen, time.Millisecond)))))
	return err
}

// examine opens the store, first read-only and then to recover it, and compares
// each round with what was acknowledged in it.
func (t *trial) examine(k *killed, acknowledged [][writers]int) error {
	check := func() (err error) {
		k.Unannounced, err = t.checkRounds(acknowledged)
		return err
	}
	took, err := t.lookReadOnly(check)
	if err != nil {
		return err
	}
	k.ReadOnly = max(k.ReadOnly, took)
	if took, err = t.open(brock.ReadWrite); err != nil {
		return err
	}
	k.Reopen = max(k.Reopen, took)
	if err := check(); err != nil {
		return err
	}
	return t.close()
}

// checkRounds counts the transactions that are there without an acknowledgement.
func (t *trial) checkRounds(acknowledged [][writers]int) (unannounced int, err error) {
	err = t.db.ViewContext(t.ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		for round, last := range acknowledged {
			for writer, a := range last {
				n, err := ledger{round: round, writer: writer, seed: t.Seed}.check(txn, a)
				if err != nil {
					return err
				}
				unannounced += n - a
			}
		}
		return nil
	})
	return unannounced, err
}
