module github.com/brockdb/brock/cmd/brock

go 1.25.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/brockdb/brock v0.0.0
	github.com/brockdb/brock/debug v0.0.0
	github.com/brockdb/brock/repository v0.0.0
	github.com/schollz/progressbar/v3 v3.19.1
	golang.org/x/term v0.45.0
)

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/brockdb/brock => ../..

replace github.com/brockdb/brock/repository => ../../repository

replace github.com/brockdb/brock/debug => ../../debug
