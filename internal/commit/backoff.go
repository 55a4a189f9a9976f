package commit

// Bounds of a backoff, in groups.
const (
	backoffMin = 16      // that skip a try after the first failure
	backoffMax = 1 << 16 // and after many failures; the number doubles
)

// backoff counts groups for which something is not tried, since it has failed. What fails
// more than every sixth time is tried ever more seldom.
type backoff struct {
	left int // groups left that skip it
	next int // what a failure sets left to, if it is more than backoffMin
}

// skips reports whether the next group skips it.
func (b *backoff) skips() bool {
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}

func (b *backoff) failed() {
	b.left = max(b.next, backoffMin)
	b.next = min(2*b.left, backoffMax)
}

func (b *backoff) worked() { b.next -= (b.next + 7) / 8 }
