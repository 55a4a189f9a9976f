// Package storetest tests a whole store through the public API alone, as a
// program would use it.
package store
