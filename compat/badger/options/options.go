// Package options has the types of options that name a choice, as Badger's package of that name has
// them. What each choice means for Brock is said in the README of the module.
package options

// ChecksumVerificationMode says when checksums are verified. Brock verifies each page and value when
// it is read first, in any mode; OnBlockRead and OnTableAndBlockRead make it verify at every read.
type ChecksumVerificationMode int

// The modes, with Badger's numbers.
const (
	NoVerification      ChecksumVerificationMode = iota // at the first read of a page or value
	OnTableRead                                         // the same
	OnBlockRead                                         // at every read
	OnTableAndBlockRead                                 // at every read
)

// CompressionType says how values are compressed that are stored out of the tree.
type CompressionType uint32

// The types, with Badger's numbers.
const (
	None   CompressionType = 0 // values are stored as they are
	Snappy CompressionType = 1 // S2, which succeeds Snappy
	ZSTD   CompressionType = 2 // Zstandard
)
