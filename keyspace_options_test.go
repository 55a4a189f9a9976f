package brock

import (
	"testing"

	"github.com/brockdb/brock/internal/base/codec"
)

// The numbers of Compression and of codec.Codec belong together. The manifest has the latter.
func TestCompressionsAreCodecs(t *testing.T) {
	for c, want := range map[Compression]codec.Codec{DefaultCompression: codec.None, NoCompression: codec.None, S2: codec.S2, Zstd: codec.Zstd} {
		wantEqual(t, "codec", c.codec(), want)
		if c != DefaultCompression {
			wantEqual(t, "compression of "+want.String(), compressionBy(want), c)
		}
	}
	wantEqual(t, "compression of a later release", compressionBy(codec.Zstd+1), NoCompression)
}
