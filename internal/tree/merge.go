package tree

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/policy"
	"github.com/brockdb/brock/internal/tombstone"
	"github.com/brockdb/brock/internal/view"
)

// merge replaces runs that follow each other in age by one. Values stay where
// they are: a merge moves keys and handles; only a clustering (cluster.go) moves
// values too.
func (t *Tree) merge(ctx context.Context, plan *policy.Compaction) (err error) {
	hold, err := t.views.Hold()
	if err != nil {
		return err
	}
	defer t.views.Reclaim() // what this replaces
	part, release := hold.Narrow(func(part *view.View) {
		part.Tables = nil
		if len(plan.Cluster) == 0 {
			part.Segments = part.Segments.Without(part.Unmoved())
		}
	})
	defer release()
	inputs, bottom, err := consecutive(part.Runs, plan.Runs)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	work := Work{Kind: "compaction", WorkInfo: WorkInfo{Reason: plan.Reason, Runs: int64(len(inputs))}}
	begin := time.Now()
	defer func() { t.count.report(work, begin, err) }()
	expiries := make([][]entry.Expiring, len(inputs))
	tombstones := make([]*tombstone.Set, len(inputs))
	order := uint64(0)
	for i, r := range inputs {
		tombstones[len(inputs)-1-i] = r.Tombstones()
		order = max(order, r.Order)
		expiries[i] = r.Meta().Expiry
	}
	drops := t.drops.Load()
	rules := t.retention.rules(bottom)
	rules.Tombstones = tombstone.Union(tombstones...)
	read, unread := uncovered(inputs, &rules, part.Layout)
	var sources []iterator.Iterator
	for _, r := range read {
		sources = append(sources, r.Iterator())
		work.BytesIn += int64(r.Meta().FileBytes())
	}
	defer t.disk.promise(int64(plan.Writes(part.Layout)))()
	input := compact.Input{
		Entries: iterator.Merge(sources),
		Run:     t.files.newRunWriter(bottom, entry.NewExpiries(rules.Now, expiries...)),
		Rules:   rules,
		Heal:    part.Healing(),
	}
	if len(plan.Cluster) > 0 {
		work.Kind, work.Segments = "clustering", int64(len(plan.Cluster))
		t.sort(ctx, &input, plan.Cluster, part)
	}
	out, err := compact.Execute(ctx, input)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	tier := layout.Upper
	if bottom {
		tier = layout.Base
	}
	edit := &layout.Edit{DropRuns: plan.Runs, AddRuns: newRuns(out.Run, tier)}
	for i := range edit.AddRuns {
		edit.AddRuns[i].Order = order
	}
	change := change{runs: inputs, unread: unread, hidden: stillHidden(inputs, unread, &out, bottom), drops: drops}
	if err := t.conclude(edit, &out, change); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	work.done(&out)
	return nil
}

// stillHidden is how many bytes of older values a merged run hides: what its
// inputs hid, without what the merge has found.
func stillHidden(inputs, unread []*view.Run, out *compact.Output, bottom bool) (hidden int64) {
	if bottom {
		return 0
	}
	for _, r := range inputs {
		if r.Hidden == view.Unknown {
			return view.Unknown
		}
		hidden += r.Hidden
	}
	for _, dead := range out.Dead.Lists() {
		hidden -= int64(dead.Bytes)
	}
	for _, r := range unread {
		hidden -= int64(r.Meta().SeparatedBytes)
	}
	return max(hidden, 0)
}

// consecutive finds the runs with these ids, which must lie next to each other,
// and says whether nothing lies below them.
func consecutive(runs []*view.Run, ids []layout.RunID) (inputs []*view.Run, bottom bool, err error) {
	for i, r := range runs {
		if !slices.Contains(ids, r.ID) {
			continue
		}
		if len(inputs) > 0 && runs[i-1] != inputs[len(inputs)-1] {
			return nil, false, fmt.Errorf("runs %v do not follow each other", ids)
		}
		inputs = append(inputs, r)
		bottom = i == len(runs)-1
	}
	if len(inputs) != len(ids) {
		return nil, false, fmt.Errorf("of runs %v only %d are there", ids, len(inputs))
	}
	return inputs, bottom, nil
}
