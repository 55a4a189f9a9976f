package commit

// Bounds of a backoff, in groups.
const (
	backoffMin = 16      // groups that skip a try after the first failure
	backoffMax = 1 << 16 // the number doubles up to this
)

// backoff decides which groups skip a try that has failed before. If more than one try in six
// fails, tries become more and more seldom; otherwise they become frequent again.
type backoff struct {
	left int // groups that still skip it
	next int // groups to skip after the next failure, if more than backoffMin
}

// skips reports whether the next group skips the try. Call it once for each group.
func (b *backoff) skips() bool {
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}

// countFailure makes the next groups skip the try: twice as many as after the failure before.
func (b *backoff) countFailure() {
	b.left = max(b.next, backoffMin)
	b.next = min(2*b.left, backoffMax)
}

// countSuccess lets the next failure skip an eighth fewer groups. One success does not undo a
// failure, which doubles the number: about six do.
func (b *backoff) countSuccess() { b.next -= (b.next + 7) / 8 }
