//go:build !unix

package process

import "time"

var begun = time.Now()

// ReadProcessorTime returns the time since the tests began.
func ReadProcessorTime() time.Duration { return time.Since(begun) }
