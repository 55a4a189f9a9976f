package main

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock"
)

type verifyCommand struct {
	readable
	JSON bool `help:"Print a line of JSON for each problem, then one with their number."`
}

// problem is one place that is damaged, as JSON.
type problem struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"` // -1: the file as a whole
	Reason string `json:"reason"`
	Keys   []keys `json:"keys,omitempty"`  // that are concerned, as far as that is known
	Stale  bool   `json:"stale,omitempty"` // without the damaged data, older versions may show there

	FollowUp bool `json:"followUp,omitempty"` // a problem above explains it
}

// keys is a range of keys, as JSON; without a bound it is open.
type keys struct {
	Keyspace string `json:"keyspace,omitempty"`
	From     []byte `json:"fromB64,omitempty"`
	To       []byte `json:"toB64,omitempty"` // the first key behind
}

// problem reports damage on standard output.
func (a *app) problem(damage *brock.CorruptionError, asJSON bool) {
	if asJSON {
		reason := damage.Reason
		if damage.Err != nil {
			reason += ": " + damage.Err.Error()
		}
		p := problem{File: damage.File, Offset: damage.Offset, Reason: reason, Stale: damage.Stale, FollowUp: damage.FollowUp}
		for _, r := range damage.Keys {
			p.Keys = append(p.Keys, keys{r.Keyspace, r.Lower, r.Upper})
		}
		_ = writeLine(a.out, p) // the exit code tells, too
		return
	}
	fmt.Fprintln(a.out, message(damage))
	if damage.FollowUp {
		fmt.Fprintln(a.out, "  this follows from the damage above: no more is lost")
	}
	if text := keysText(damage); text != "" {
		fmt.Fprintln(a.out, "  keys:", text)
	}
}

// Run reports every problem on standard output.
func (c *verifyCommand) Run(a *app) error {
	problems := 0
	report := func(damage *brock.CorruptionError) {
		problems++
		a.problem(damage, c.JSON)
	}
	err := c.read(a, func(db *brock.DB) error {
		work := a.progress.Start("verify", 0)
		defer work.End()
		return db.Verify(a.ctx, report)
	})
	var damage *brock.CorruptionError
	if errors.As(err, &damage) && problems == 0 { // the store can't be opened
		report(damage)
		c.wayOut(a)
	}
	switch {
	case err != nil && !errors.Is(err, brock.ErrCorrupt):
		return err
	case c.JSON:
		err = errors.Join(err, writeLine(a.out, map[string]int{"problems": problems}))
	case problems == 0:
		fmt.Fprintln(a.out, "every checksum and cross-reference is right")
	}
	if err != nil {
		return silent{err}
	}
	return nil
}

// wayOut prints what can be done about a store that can't be opened.
func (c *verifyCommand) wayOut(a *app) {
	s := c.store
	s.recover = true
	if s.read(a, func(*brock.DB) error { return nil }) == nil {
		fmt.Fprintln(a.err, "brock: what was committed before the damage can be read: brock dump --recover saves it, other commands that write nothing show it with --recover")
		return
	}
	fmt.Fprintln(a.err, "brock: brock salvage makes a new store of what a checksum still proves")
}
