package trial

import (
	"context"
	"fmt"
	"io"

	"github.com/brockdb/brock"
)

// writers is how many goroutines of the process that is killed write.
const writers = 4

// The lines that the process writes: these two, and a line "writer number" for
// each commit, after it has returned.
const (
	opening = "opening"
	ready   = "ready"
)

// Write opens a store and writes the transactions of a round with synced commits
// until it is killed, or cannot write to acks any more. It flushes and merges
// far more often than a store does by itself, to be killed in the midst of that.
func Write(ctx context.Context, o brock.Options, round int, seed uint64, acks io.Writer) error {
	if _, err := fmt.Fprintln(acks, opening); err != nil {
		return err
	}
	o.MustExist, o.MemoryLimit = true, 16<<20
	o.Tuning = brock.Tuning{MemtableSize: 256 << 10, SegmentSize: 4 << 20}
	db, err := brock.OpenContext(ctx, o)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := fmt.Fprintln(acks, ready); err != nil {
		return err
	}
	return together(writers, func(writer int) error {
		l := ledger{round: round, writer: writer, seed: seed}
		for n := 1; ; n++ {
			err := db.UpdateContext(ctx, brock.TxnOptions{Durability: brock.Synced}, func(txn *brock.Txn) error { return l.write(txn, n) })
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(acks, writer, n); err != nil {
				return err
			}
		}
	})
}
