// Command bench runs the same work on Brock and on its peers, side by side in
// one process, and prints what each needed for it.
//
// A store is one file of internal/kv that implements kv.Store; a workload is one
// file here (load.go, ycsb.go, ...) that uses nothing else.
// README.md says how the figures are taken and what they leave out.
package main
