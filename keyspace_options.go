package brock

import (
	"math"

	"github.com/brockdb/brock/internal/base/codec"
	"github.com/brockdb/brock/internal/version/layout"
)

// recordedOptions returns o in the form in which the manifest has it.
func recordedOptions(o *KeyspaceOptions) layout.KeyspaceOptions {
	return layout.KeyspaceOptions{
		ValueThreshold: int64(o.ValueThreshold), TTL: o.TTL, Versions: int64(o.Versions.Versions), Age: o.Versions.Age, Manual: o.Versions.Manual,
		Codec: int64(o.Compression.codec()), CompressAbove: int64(o.CompressAbove),
	}
}

// loadedOptions returns the options that the manifest has.
func loadedOptions(o *layout.KeyspaceOptions) KeyspaceOptions {
	return KeyspaceOptions{
		ValueThreshold: clampInt32(o.ValueThreshold), TTL: o.TTL, Versions: Retention{Versions: clampInt32(o.Versions), Age: o.Age, Manual: o.Manual},
		Compression: compressionBy(codec.Codec(o.Codec)), CompressAbove: max(clampInt32(o.CompressAbove), 0),
	}
}

// codec returns the codec that compresses values; both have the same order.
func (c Compression) codec() codec.Codec {
	return codec.Codec(max(c, NoCompression) - NoCompression)
}

// compressionBy returns the compression of a codec. A codec of a later release means that this
// release writes values without compression.
func compressionBy(c codec.Codec) Compression {
	if !c.Known() {
		return NoCompression
	}
	return NoCompression + Compression(c)
}

// clampInt32 returns n as an int that each machine has: at least -1, at most 2^31-1. Options beyond
// these bounds mean the same.
func clampInt32(n int64) int { return int(max(min(n, math.MaxInt32), -1)) }
