// Package metamorphic attacks whole stores: it crashes them at every file
// operation, makes every file operation fail, damages every file, and compares
// what random programs see with a plain model. Only tests use it, through the
// public API.
//
// Every failure names the seed, the script and the operation that repeat it.
package metamorphic
