// Package metamorphic attacks whole stores: it crashes them at every file
// operation, fails every one of these, damages every file, and holds what random
// programs see against a plain model. Only tests use it, through the public API.
//
// Every failure names the seed, the script and the operation that bring it back.
package metamorphic
