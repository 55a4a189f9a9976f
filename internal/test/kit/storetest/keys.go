package storetest

import (
	"bytes"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// DrawKeys returns Keys for the stores of a test, or nil: each run draws anew, so that
// both kinds are tested in the time of one. The log of the test says which it was.
func DrawKeys(t testing.TB) brock.KeyProvider {
	if *KeysFlag == "none" || *KeysFlag == "some" && draw.Coin(t) {
		return nil
	}
	t.Log("the stores are encrypted: -keys all")
	return MasterKey(1)
}

// MasterKey returns the master key n of tests.
func MasterKey(n byte) brock.KeyProvider { return brock.StaticKey(bytes.Repeat([]byte{n}, 32)) }

// KeyedOptions are of an encrypted store with small files.
func KeyedOptions(fs vfs.FS, dir string) brock.Options {
	return brock.Options{Dir: dir, FS: fs, Keys: MasterKey(1), Tuning: brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 256 << 10}}
}
