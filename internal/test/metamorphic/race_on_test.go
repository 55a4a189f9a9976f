//go:build race

package metamorphic

// raced: the race detector is on, and everything takes ten times as long.
const raced = true
