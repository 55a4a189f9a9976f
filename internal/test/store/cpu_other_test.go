//go:build !unix

package store

import "time"

var begun = time.Now()

// spent is the time since the tests began.
func spent() time.Duration { return time.Since(begun) }
