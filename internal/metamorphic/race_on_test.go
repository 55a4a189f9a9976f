//go:build race

package metamorphic

// raced says that everything takes ten times as long.
const raced = true
