// Command bench runs the same work on Brock and on its peers, side by side in
// one process, and prints what each needed for it.
//
// A store is one file (badger.go, pebble.go, ...) that implements Store; a
// workload is one file (load.go, reads.go, ...) that uses nothing else.
// README.md says how the figures are taken and what they leave out.
package main
