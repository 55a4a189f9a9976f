package metamorphic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// stepSize is the length of one step of FuzzOpen's script: what to do, with which file,
// 2 bytes of a place, in 65536ths of the file, 2 more bytes that are added to it, and 2
// bytes of data.
const stepSize = 8

// Steps of FuzzOpen's script.
const (
	invert    = iota // the bits that the data has
	overwrite        // some bytes, by the data
	cutOff           // all bytes from the place on
	lengthen         // by up to 64 KiB
	remove
	duplicate // to the name of another file, or to a name that is new
	steps
)

// mangling makes one step of a script.
func mangling(op, file byte, at, plus, data uint16) []byte {
	p := binary.LittleEndian.AppendUint16([]byte{op, file}, at)
	return binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(p, plus), data)
}

// mangle does one step of a script to the files of m.
func mangle(t *testing.T, m *vfs.Mem, p []byte) {
	files := list(t, m)
	if len(files) == 0 {
		return
	}
	name := files[int(p[1])%len(files)]
	whole := content(t, m, name)
	plus, data := binary.LittleEndian.Uint16(p[4:]), p[6:stepSize]
	at := int(binary.LittleEndian.Uint16(p[2:])) * len(whole) >> 16
	at = min(at+int(plus), max(0, len(whole)-1))
	switch p[0] % steps {
	case invert:
		for i := range whole[at:min(at+len(data), len(whole))] {
			whole[at+i] ^= data[i]
		}
	case overwrite:
		for i := range whole[at:min(at+int(data[0])*64+1, len(whole))] {
			whole[at+i] = data[1]
		}
	case cutOff:
		whole = whole[:at]
	case lengthen:
		whole = append(whole, make([]byte, binary.LittleEndian.Uint16(data))...)
	case remove:
		must(t, "remove", m.Remove(path.Join("db", name)))
		return
	case duplicate:
		name = files[int(data[0])%len(files)]
		if data[1]%2 == 1 {
			name = fmt.Sprintf("%06d%s", int(data[1])+1, path.Ext(name))
		}
	}
	replace(t, m, name, whole)
}

// forge appends an edit to the manifest, with the checksums that it needs. It reports
// whether that could be done.
func forge(t *testing.T, m *vfs.Mem, p []byte) bool {
	e, err := manifest.DecodeEdit(p)
	if err != nil {
		return false
	}
	log, err := manifest.Open(manifest.Options{FS: m, Dir: "db"})
	must(t, "open the manifest", err)
	_, err = log.Append(e)
	must(t, "close the manifest", log.Close())
	return err == nil
}

// FuzzOpen opens a directory of files of which some are damaged, gone, or there twice,
// and a manifest that may have an edit which no store writes. It reads, verifies and
// compacts. One step of damage gives the right data or an error, as in TestDamage. Several,
// or a forged edit, may take the store back, but no key has a value that it never had.
// None makes a call panic, hang, or take memory by more than the size of the files.
func FuzzOpen(f *testing.F) {
	const files = 9
	for file := range byte(files) {
		place := uint16(file) << 12
		for op := range byte(steps) {
			corpus.Add(f, mangling(op, file, place, 40, 0x0307), []byte(nil), file+op)
		}
		corpus.Add(f, append(mangling(cutOff, file, 1<<15, 0, 0), mangling(invert, file+1, 1<<15, 0, 1)...), []byte(nil), file)
		corpus.Add(f, append(mangling(remove, file, 0, 0, 0), mangling(duplicate, file, 0, 0, 0x0103)...), []byte(nil), file)
	}
	corpus.Add(f, bytes.Repeat(mangling(remove, 0, 0, 0, 0), files), []byte(nil), byte(0))
	for _, e := range forgedEdits() {
		if p := manifest.AppendEdit(nil, e); len(p) < 4096 {
			corpus.Add(f, []byte(nil), p, byte(0))
		}
	}
	for _, e := range []*layout.Edit{
		{DropRuns: []layout.RunID{1}}, {DropSegments: []entry.FileNum{2}}, {CleanClose: true, FlushedTo: 1000},
		{Dead: []layout.Dead{{Segment: 2, Bytes: 100, Granules: []uint32{0, 1, 2}}}}, {Floor: 5}, {DropKeyspaces: []entry.KeyspaceID{0}},
	} {
		corpus.Add(f, []byte(nil), manifest.AppendEdit(nil, e), byte(1))
	}
	var victims [2]*victim
	f.Fuzz(func(t *testing.T, script, edit []byte, how byte) {
		if victims[how%2] == nil {
			v := newVictim(t, how%2 == 1)
			v.o.MemoryLimit = 8 << 20
			victims[how%2] = v
		}
		b := &beholder{t: t, v: victims[how%2], heavy: true, noMap: how&2 != 0}
		b.d.what = fmt.Sprintf("script %x, edit %x, %d", script, edit, how)
		b.d.do = func(t *testing.T, m *vfs.Mem) {
			b.mixed = forge(t, m, edit)
			for n := 0; n < min(2*files, len(script)/stepSize); n++ {
				mangle(t, m, script[n*stepSize:])
				b.mixed = b.mixed || n > 0
			}
		}
		b.behold()
	})
}
