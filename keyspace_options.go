package brock

import (
	"math"

	"github.com/brockdb/brock/internal/codec"
	"github.com/brockdb/brock/internal/layout"
)

// recordedOptions and loadedOptions are options on their way to the manifest and back.
func recordedOptions(o *KeyspaceOptions) layout.KeyspaceOptions {
	return layout.KeyspaceOptions{
		ValueThreshold: int64(o.ValueThreshold), TTL: o.TTL, Versions: int64(o.Versions.Versions), Age: o.Versions.Age,
		Codec: int64(o.Compression.codec()), CompressAbove: int64(o.CompressAbove),
	}
}

func loadedOptions(o *layout.KeyspaceOptions) KeyspaceOptions {
	return KeyspaceOptions{
		ValueThreshold: small(o.ValueThreshold), TTL: o.TTL, Versions: Retention{Versions: small(o.Versions), Age: o.Age},
		Compression: compressionBy(codec.Codec(o.Codec)), CompressAbove: max(small(o.CompressAbove), 0),
	}
}

// codec is what values are compressed with.
func (c Compression) codec() codec.Codec {
	switch c {
	case S2:
		return codec.S2
	case Zstd:
		return codec.Zstd
	}
	return codec.None
}

// compressionBy is the compression with a codec; one of a later release is none
// for what this one writes.
func compressionBy(c codec.Codec) Compression {
	switch c {
	case codec.S2:
		return S2
	case codec.Zstd:
		return Zstd
	}
	return NoCompression
}

// small is n as an int of any machine; beyond, nothing changes.
func small(n int64) int { return int(max(min(n, math.MaxInt32), -1)) }
