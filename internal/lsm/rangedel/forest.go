package rangedel

// Span is one of the spans of a node of a forest that is written to a file.
type Span struct {
	Level int // of the node; Top: the node of all range deletes
	Node  int // number of the node within its level
	Delete
}

// Top is the level of the one node that has all range deletes of a forest.
const Top = 0xff

// WalkForest calls fn for the spans of all nodes of a forest, in the order of levels, nodes and
// keys. It stops at the first error of fn. Node i of level k lays fanout^k range deletes over each
// other: those from number i·fanout^k on. Level 0 is the range deletes themselves. The last node,
// of level Top, has all range deletes, however many. No other node is made unless it is full, and
// none that would be the same as Top.
func WalkForest(rangeDeletes []Delete, fanout int, fn func(Span) error) error {
	l := list(rangeDeletes)
	leaves := make([]span, len(l))
	nodes := make([][]span, len(l))
	for i := range l {
		leaves[i] = span{bound(2 * i), bound(2*i + 1), uint32(i)}
		nodes[i] = leaves[i : i+1]
	}
	size := 1 // range deletes below a node
	for level := 0; len(nodes) > 0; level++ {
		for i, spans := range nodes {
			if (i+1)*size > len(l) { // not full: only a part of the next level's nodes
				break
			}
			if err := l.eachSpan(level, i, spans, fn); err != nil {
				return err
			}
		}
		// The next level would be one node, which is Top.
		if len(nodes) <= fanout {
			break
		}
		size *= fanout
		// In place: a node is written behind those that are still read.
		above := nodes[:0]
		for i := 0; i < len(nodes); i += fanout {
			above = append(above, l.layOverAll(nodes[i:min(i+fanout, len(nodes))]))
		}
		nodes = above
	}
	return l.eachSpan(Top, 0, l.layOverAll(nodes), fn)
}

// eachSpan calls fn for the spans of one node.
func (l *list) eachSpan(level, node int, spans []span, fn func(Span) error) error {
	for _, s := range spans {
		if err := fn(Span{level, node, l.rangeDelete(s)}); err != nil {
			return err
		}
	}
	return nil
}

// layOverAll lays many lists of spans over each other, by halves: each span is copied a few times
// only.
func (l *list) layOverAll(nodes [][]span) []span {
	switch n := len(nodes); n {
	case 0:
		return nil
	case 1:
		return nodes[0]
	default:
		return l.layOver(l.layOverAll(nodes[:n/2]), l.layOverAll(nodes[n/2:]))
	}
}
