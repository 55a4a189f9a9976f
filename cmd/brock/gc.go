package main

import (
	"fmt"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
)

type gcCommand struct {
	store
	Versions int           `default:"1" help:"Of the default keyspace, keep this many newest versions of each key. Other keyspaces have their rules stored."`
	KeepFor  time.Duration `help:"Of the default keyspace, also keep versions that were the newest within this time."`
	JSON     bool          `help:"Print JSON."`
}

// collected is what gc has done.
type collected struct {
	Freed       int64         `json:"freedBytes"`
	Before      int64         `json:"bytesBefore"` // of all files of runs, segments and forwarding tables
	After       int64         `json:"bytesAfter"`
	Live        int64         `json:"liveBytes"`
	Rewritten   int64         `json:"rewrittenBytes"`
	Took        time.Duration `json:"tookNanoseconds"`
	Collections int64         `json:"collections"`
}

// Run frees the disk space of what no reader can see. A store in use does so by
// itself; the command is for a store that will not be opened for long.
func (c *gcCommand) Run(a *app) error {
	var r collected
	work := a.progress.Start("gc", 0)
	o := brock.Options{MustExist: true}
	o.KeyspaceDefaults.Versions = brock.Retention{Versions: c.Versions, Age: c.KeepFor}
	o.Events.Collection = func(w brock.WorkInfo) { work.Add(w.BytesIn) }
	err := c.use(a, o, func(db *brock.DB) (err error) {
		begin := time.Now()
		r.Before = fileBytes(db)
		if r.Freed, err = db.Reclaim(a.ctx); err != nil {
			return err
		}
		r.After, r.Took = fileBytes(db), time.Since(begin)
		t := db.Metrics().Tree
		r.Live, r.Collections = t.LiveBytes, t.Collections
		r.Rewritten = t.FlushedBytes + t.CompactedBytes + t.CollectedBytes
		return nil
	})
	work.End()
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(a.out, r)
	}
	fmt.Fprintf(a.out, "freed %s of %s in %s; %s live, %s rewritten\n", human.Bytes(r.Freed), human.Bytes(r.Before), human.Duration(r.Took),
		human.Bytes(r.Live), human.Bytes(r.Rewritten))
	return nil
}

func fileBytes(db *brock.DB) int64 {
	t := db.Metrics().Tree
	return t.RunBytes + t.SegmentBytes + t.ForwardingBytes
}
