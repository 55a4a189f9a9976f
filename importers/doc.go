// Package importers moves the pairs of other embedded stores into a Brock store, and those of a Brock
// store into a bbolt file. Each store is read by the library of its own engine: Badger 1 to 4, bbolt,
// goleveldb and Pebble 1 and 2. Nothing is ever written to the source.
//
// Command brock-peers is the package as a program; brock import and brock export --bbolt run it.
package importers
