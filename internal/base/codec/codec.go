// Package codec is how single values are compressed: s2 blocks and zstd frames
// behind one pair of calls. A compressed value doesn't tell its own length: keep it
// beside the value.
package codec

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Codec says how a value is stored. Its number is part of the format: a nibble.
type Codec uint8

// The codecs. Numbers from 3 on are of later formats.
const (
	None Codec = 0 // as it is
	S2   Codec = 1 // an s2 block
	Zstd Codec = 2 // one zstd frame
)

// Known reports whether this release can decode c.
func (c Codec) Known() bool { return c <= Zstd }

// String is the name of c.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case S2:
		return "s2"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// MaxLength (64 MiB) bounds the values that are compressed, and so the memory that a
// damaged length can ask for.
const MaxLength = 64 << 20

// ErrDamaged says that bytes don't decode to a value of the given length.
var ErrDamaged = errors.New("value does not decode")

// Coder encodes and decodes. Its zero value is ready, and any number of goroutines
// may use it. Memory for zstd is taken when it is first used.
type Coder struct {
	encoding sync.Once
	encoder  *zstd.Encoder // nil until the first value is encoded by zstd
	decoding sync.Once
	decoder  *zstd.Decoder // nil until the first value is decoded by zstd
}

// coders bounds how many values a Coder encodes or decodes by zstd at a time:
// each takes about a megabyte for tables.
const coders = 4

// Encode returns src encoded by c, in dst if its capacity is enough. src has 1
// to MaxLength bytes, and c is S2 or Zstd.
func (d *Coder) Encode(dst []byte, c Codec, src []byte) []byte {
	if c == S2 {
		return s2.Encode(dst[:0:cap(dst)], src)
	}
	d.encoding.Do(func() {
		// The options are constants, of which zstd refuses none.
		d.encoder, _ = zstd.NewWriter(nil,
			zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithEncoderConcurrency(min(coders, runtime.GOMAXPROCS(0))),
			zstd.WithWindowSize(1<<20),
			zstd.WithLowerEncoderMem(true),
			zstd.WithSingleSegment(true), // says how long the value is
			zstd.WithEncoderCRC(false))   // records have checksums
	})
	return d.encoder.EncodeAll(src, dst[:0])
}

// Decode returns the value of length bytes that src encodes by c, in dst if its
// capacity is enough. It allocates no more than length, whatever src says, and
// returns ErrDamaged if src is anything else.
func (d *Coder) Decode(dst []byte, c Codec, src []byte, length int) ([]byte, error) {
	if length <= 0 || length > MaxLength {
		return nil, fmt.Errorf("%w: to %d bytes", ErrDamaged, length)
	}
	switch c {
	case S2:
		// The length in the block is not trusted: s2 would allocate as much.
		if n, err := s2.DecodedLen(src); err != nil || n != length {
			return nil, fmt.Errorf("%w: %d bytes instead of %d: %w", ErrDamaged, n, length, err)
		}
	case Zstd:
		d.decoding.Do(func() {
			d.decoder, _ = zstd.NewReader(nil,
				zstd.WithDecoderConcurrency(min(coders, runtime.GOMAXPROCS(0))),
				zstd.WithDecoderMaxMemory(MaxLength),
				zstd.WithDecoderLowmem(true),
				zstd.WithDecodeAllCapLimit(true))
		})
	default:
		return nil, fmt.Errorf("%w: by %v", ErrDamaged, c)
	}
	// The capacity is the limit for both decoders: src can't make them allocate more.
	if cap(dst) < length {
		dst = make([]byte, length)
	}
	dst = dst[:0:length]
	var err error
	if c == S2 {
		dst, err = s2.Decode(dst, src)
	} else {
		dst, err = d.decoder.DecodeAll(src, dst)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	// A shorter value is damage: no other layer would notice.
	if len(dst) != length {
		return nil, fmt.Errorf("%w: %d bytes instead of %d", ErrDamaged, len(dst), length)
	}
	return dst, nil
}
