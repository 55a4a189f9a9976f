module github.com/brockdb/brock/debug

go 1.25.0

require github.com/brockdb/brock v0.0.0

require (
	github.com/klauspost/compress v1.20.3 // indirect
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/brockdb/brock => ..
