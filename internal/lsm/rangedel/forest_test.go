package rangedel

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
)

// n range deletes that are nested, and of which each is needed, are written as about n·log n
// spans, not n².
func TestNestedRangeDeletesTakeFewSpans(t *testing.T) {
	spans := func(n int) (sum int) {
		var list []Delete
		for i := range n {
			list = append(list, Delete{Lo: fmt.Appendf(nil, "\x00%08d", i), Hi: fmt.Appendf(nil, "\x00%08d", 4*n-i), Version: entry.Version(i + 1)})
		}
		err := WalkForest(list, 16, func(Span) error { sum++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	for n, before := 1000, spans(1000); n < 4000; n *= 2 {
		now := spans(2 * n)
		if now > 3*before {
			t.Errorf("%d range deletes are %d spans, %d are %d", n, before, 2*n, now)
		}
		before = now
	}
}
