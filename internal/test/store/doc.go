// Package store tests whole stores through the public API alone, as a program would use them: by
// scripts, and by random histories in which everything happens. Each folder below tests one subject.
package store
