//go:build !cgo_peers || !cgo

package kv

// cgoMakers are the stores written in C and C++: none without -tags cgo_peers.
func cgoMakers() []Maker { return nil }
