package result

import (
	"fmt"
	"io"
)

// Change is how a figure of the first store differs from an older run.
type Change struct {
	Table  string
	Column string
	Old    Spread
	New    Spread
	Factor float64 // new over old: above 1, it is better than before
	Drift  float64 // the same of its peers, in the middle: what the machine has done
	Worse  bool
}

// Compare looks for figures of the first store that have become worse by more than
// tolerance (0.1: a tenth). A figure counts as worse only if it is so in three ways:
// by its median; by its median less what happened to the peers' medians of the
// same figure, as machines differ from hour to hour; and if no new slice is as good
// as the old median, unless there is one slice only.
func Compare(old, now *Run, tolerance float64) []Change {
	var changes []Change
	for _, t := range now.Tables {
		before := old.Find(t.Workload, t.ValueSize)
		if before == nil || len(t.Rows) == 0 || before.Keys != t.Keys {
			continue
		}
		was := before.Row(t.Rows[0].Store)
		if was == nil || len(was.Slices) == 0 || len(t.Rows[0].Slices) == 0 {
			continue
		}
		for i, c := range t.Columns {
			j := before.column(c.Name)
			if c.Better == Unrated || j < 0 {
				continue
			}
			ch := Change{Table: t.name(), Column: c.Name, Old: was.Spread(j), New: t.Rows[0].Spread(i)}
			ch.Factor = c.Ratio(ch.New.Median, ch.Old.Median)
			ch.Drift = drift(before, t, c, j, i)
			limit := 1 / (1 + tolerance)
			best := ch.New.Max
			if c.Better == Less {
				best = ch.New.Min
			}
			ch.Worse = ch.Factor > 0 && ch.Factor < limit && ch.Factor/ch.Drift < limit &&
				(len(t.Rows[0].Slices) == 1 || c.Ratio(best, ch.Old.Median) < 1)
			changes = append(changes, ch)
		}
	}
	return changes
}

// drift is the median ratio of the peers, new over old; 1 if there are fewer than
// two.
func drift(old, now *Table, c Column, j, i int) float64 {
	var factors []float64
	for _, row := range now.Rows[1:] {
		if was := old.Row(row.Store); was != nil && !row.Reference {
			if f := c.Ratio(row.Spread(i).Median, was.Spread(j).Median); f > 0 {
				factors = append(factors, f)
			}
		}
	}
	if len(factors) < 2 {
		return 1
	}
	return Median(factors)
}

func (t *Table) column(name string) int {
	for i, c := range t.Columns {
		if c.Name == name {
			return i
		}
	}
	return -1
}

// PrintChanges writes what has changed by more than tolerance either way, and
// returns how many figures are worse.
func PrintChanges(w io.Writer, changes []Change, tolerance float64) (worse int) {
	lines := [][]string{{"figure", "old", "new", "ratio", "peers", ""}}
	for _, c := range changes {
		verdict := ""
		switch {
		case c.Worse:
			worse++
			verdict = "WORSE"
		case c.Factor > 1+tolerance:
			verdict = "better"
		case c.Factor < 1/(1+tolerance):
			verdict = "within noise or drift"
		default:
			continue
		}
		lines = append(lines, []string{c.Table + ": " + c.Column, Number(c.Old.Median), Number(c.New.Median),
			fmt.Sprintf("%.2f", c.Factor), fmt.Sprintf("%.2f", c.Drift), verdict})
	}
	fmt.Fprintf(w, "\n%d figures compared, %d worse by more than %.0f %%\n", len(changes), worse, 100*tolerance)
	if len(lines) > 1 {
		align(w, lines)
	}
	return worse
}
