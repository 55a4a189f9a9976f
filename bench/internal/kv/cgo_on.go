//go:build cgo_peers && cgo

package kv

import (
	"encoding/binary"
	"os"
	"regexp"
	"unsafe"
)

// cgoMakers are the stores written in C and C++. Each call of the interface is
// one call of C, which touches values there: no Go program reaches them faster.
func cgoMakers() []Maker {
	version := libraryVersion("rocksdb")
	return []Maker{
		{Name: "lmdb", Version: lmdbVersion(), Open: openLMDB, Setup: lmdbSetup},
		{Name: "rocksdb", Version: version, Open: openRocks, Setup: rocksSetup},
		{Name: "rocksdb-blob", Version: version, MinValue: rocksBlobThreshold, Open: openRocksBlob, Setup: rocksBlobSetup},
	}
}

// pack copies changes to memory that C can read: a head of three lengths for each,
// the key, the value, and zeros up to four bytes.
func pack(changes []Change) []byte {
	var b []byte
	for i := range changes {
		c := &changes[i]
		remove := uint32(0)
		if c.Delete {
			remove = 1
		}
		for _, n := range []uint32{uint32(len(c.Key)), uint32(len(c.Value)), remove} {
			b = binary.NativeEndian.AppendUint32(b, n)
		}
		b = append(append(b, c.Key...), c.Value...)
		for len(b)%4 > 0 {
			b = append(b, 0)
		}
	}
	return b
}

// packable returns ErrNoTTL if a change has one.
func packable(changes []Change) error {
	for i := range changes {
		if changes[i].TTL > 0 {
			return ErrNoTTL
		}
	}
	return nil
}

// libraryVersion reads the version from the name of a library that is loaded.
func libraryVersion(name string) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	m := regexp.MustCompile(`lib` + name + `\.so\.([0-9.]+)`).FindSubmatch(maps)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// pointer is that of the first byte; nil if there is none.
func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
