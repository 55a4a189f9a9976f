package commit

// Bounds of a backoff, in groups.
const (
	backoffMin = 16      // groups that skip a try after the first failure
	backoffMax = 1 << 16 // the number doubles up to this
)

// backoff counts the groups that skip a try because it has failed. If more than one try in
// six fails, tries become more and more seldom; otherwise they recover.
type backoff struct {
	left int // groups left that skip it
	next int // what a failure sets left to, if it is more than backoffMin
}

// skips reports whether the next group skips the try. Call it once for each group.
func (b *backoff) skips() bool {
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}

func (b *backoff) countFailure() {
	b.left = max(b.next, backoffMin)
	b.next = min(2*b.left, backoffMax)
}

func (b *backoff) worked() { b.next -= (b.next + 7) / 8 }
