module github.com/brockdb/brock

go 1.25.0

require (
	github.com/klauspost/compress v1.20.3
	golang.org/x/crypto v0.54.0
	golang.org/x/sys v0.47.0
)
