package brockds

import (
	"bytes"
	"fmt"
	"math"

	ds "github.com/ipfs/go-datastore"
	dsq "github.com/ipfs/go-datastore/query"

	"github.com/brockdb/brock"
)

// plan says how a query is answered: which keys are walked, and what is left to do with each.
type plan struct {
	query    dsq.Query             // as it was asked
	walk     brock.IteratorOptions // the range that holds all results, and the direction
	others   []string              // keys in the range that are no results
	filters  []dsq.Filter          // that must see the entry
	orders   []dsq.Order           // nil: results come in the order of the walk
	compares bool                  // filters or orders may look at values, so they are read, also for KeysOnly
}

// planQuery turns the prefix and filters of keys into bounds, and an order of keys into a direction.
func planQuery(q dsq.Query) (*plan, error) {
	p := &plan{query: q}
	if prefix := ds.NewKey(q.Prefix).String(); prefix != "/" {
		// With a slash: a prefix finds the children of a key, not keys that begin alike.
		p.walk.Prefix = []byte(prefix + "/")
	}
	for _, f := range q.Filters {
		if err := p.addFilter(f); err != nil {
			return nil, err
		}
	}
	if len(q.Orders) > 0 {
		switch q.Orders[0].(type) {
		// Keys are unique: what comes behind an order of keys decides nothing.
		case dsq.OrderByKey, *dsq.OrderByKey:
		case dsq.OrderByKeyDescending, *dsq.OrderByKeyDescending:
			p.walk.Reverse = true
		default:
			p.orders = q.Orders
		}
	}
	p.compares = len(p.filters) > 0 || len(p.orders) > 0
	p.walk.KeysOnly = q.KeysOnly && !p.compares
	if !p.compares && len(p.others) == 0 && q.Limit > 0 && max(q.Offset, 0) < math.MaxInt-q.Limit {
		p.walk.Limit = max(q.Offset, 0) + q.Limit // so that it reads no further ahead
	}
	return p, nil
}

// addFilter narrows the range by a filter of keys, or keeps the filter.
func (p *plan) addFilter(f dsq.Filter) error {
	switch f := f.(type) {
	case dsq.FilterKeyCompare:
		return p.addCompare(f)
	case *dsq.FilterKeyCompare:
		return p.addCompare(*f)
	case dsq.FilterKeyPrefix:
		p.narrow(brock.PrefixRange([]byte(f.Prefix)))
	case *dsq.FilterKeyPrefix:
		p.narrow(brock.PrefixRange([]byte(f.Prefix)))
	case dsq.FilterValueCompare:
		return p.keepCompare(f)
	case *dsq.FilterValueCompare:
		return p.keepCompare(*f)
	default:
		p.filters = append(p.filters, f)
	}
	return nil
}

// addCompare narrows the range by a comparison of keys.
func (p *plan) addCompare(f dsq.FilterKeyCompare) error {
	key := []byte(f.Key)
	after := append(bytes.Clone(key), 0) // the least key that is greater
	switch f.Op {
	case dsq.Equal:
		p.narrow(key, after)
	case dsq.NotEqual:
		p.others = append(p.others, f.Key)
	case dsq.LessThan:
		p.narrow(nil, key)
	case dsq.LessThanOrEqual:
		p.narrow(nil, after)
	case dsq.GreaterThan:
		p.narrow(after, nil)
	case dsq.GreaterThanOrEqual:
		p.narrow(key, nil)
	default:
		return unknownOp(f.Op)
	}
	return nil
}

// keepCompare keeps a comparison of values, whose operation must be known: the filter would panic.
func (p *plan) keepCompare(f dsq.FilterValueCompare) error {
	switch f.Op {
	case dsq.Equal, dsq.NotEqual, dsq.LessThan, dsq.LessThanOrEqual, dsq.GreaterThan, dsq.GreaterThanOrEqual:
		p.filters = append(p.filters, f)
		return nil
	}
	return unknownOp(f.Op)
}

func unknownOp(op dsq.Op) error {
	return fmt.Errorf("brockds: unknown operation %q of a filter: %w", string(op), brock.ErrInvalid)
}

// narrow intersects the range with [lo, hi); nil is no bound.
func (p *plan) narrow(lo, hi []byte) {
	if bytes.Compare(lo, p.walk.Lower) > 0 {
		p.walk.Lower = lo
	}
	if hi != nil && (p.walk.Upper == nil || bytes.Compare(hi, p.walk.Upper) < 0) {
		p.walk.Upper = hi
	}
}

// accepts reports whether all filters accept the entry.
func (p *plan) accepts(e dsq.Entry) bool {
	for _, f := range p.filters {
		if !f.Filter(e) {
			return false
		}
	}
	return true
}
