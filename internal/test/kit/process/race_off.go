//go:build !race

package process

// RaceEnabled says whether the race detector watches.
const RaceEnabled = false
