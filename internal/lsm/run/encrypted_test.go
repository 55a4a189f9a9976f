package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/chunk"
	"github.com/brockdb/brock/internal/lsm/iterator"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

var testKey = crypt.DataKey{ID: crypt.ID{9, 8, 7}, Cipher: crypt.AES256GCM, Key: [crypt.KeySize]byte{1, 2, 3}}

var (
	testRing = newRing(nil)
	ring     *crypt.Ring // that runs are written with; nil: they are plain
)

// newRing returns a Ring with the test's key, which draws file key ids from random.
func newRing(random []byte) *crypt.Ring {
	unwrap := func(crypt.ID) (crypt.DataKey, error) { return testKey, nil }
	r := crypt.NewRing(nil, unwrap)
	if random != nil {
		r = crypt.NewRing(bytes.NewReader(random), unwrap)
	}
	if err := r.SetCurrent(testKey.ID); err != nil {
		panic(err)
	}
	return r
}

// forms calls fn as tests of plain and of encrypted runs.
func forms(t *testing.T, fn func(t *testing.T)) {
	t.Run("plain", fn)
	ring = testRing
	defer func() { ring = nil }()
	t.Run("encrypted", fn)
}

func form() string {
	if ring == nil {
		return ""
	}
	return "_encrypted"
}

// useGoldenRing has the next run drawn the same file key id each time.
func useGoldenRing(t *testing.T, which int) {
	ring = newRing(bytes.Repeat([]byte{byte(0x10 + which)}, 16))
	t.Cleanup(func() { ring = testRing })
}

// writeEncrypted writes a run of several pages, and returns its only file.
func writeEncrypted(t *testing.T, dir string) ([]byte, layout.RunMeta) {
	t.Helper()
	ring = testRing
	defer func() { ring = nil }()
	m := writeRun(t, writerConfig(dir), goldens[1].entries, goldens[1].rangeDeletes...)
	b, err := os.ReadFile(filepath.Join(dir, "000007.run"))
	if err != nil {
		t.Fatal(err)
	}
	return b, m
}

// No part of a run can stand for another one: not of the same file, nor of the same place in a
// file with another file key id, in which the same was written.
func TestSwappedPagesAreFound(t *testing.T) {
	dir := t.TempDir()
	other, otherMeta := writeEncrypted(t, t.TempDir())
	file, m := writeEncrypted(t, dir)
	if m.Files[0].KeyID == otherMeta.Files[0].KeyID || len(file) != len(other) {
		t.Fatalf("file key ids %v and %v, %d and %d bytes", m.Files[0].KeyID, otherMeta.Files[0].KeyID, len(file), len(other))
	}
	try := func(bad []byte, what string, args ...any) {
		t.Helper()
		if bytes.Equal(bad, file) {
			t.Fatalf(what+": the same", args...)
		}
		if err := os.WriteFile(filepath.Join(dir, "000007.run"), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, noMap := range []bool{false, true} {
			if !tryAll(t, dir, m, 1, noMap) {
				t.Errorf(what+": not found", args...)
			}
		}
	}
	const page = chunk.PageSize
	for i := 0; i+page <= len(file); i += page {
		bad := bytes.Clone(file)
		copy(bad[i:], other[i:i+page])
		try(bad, "page at %d of another file key id", i)
		for j := i + page; j+page <= len(file); j += page {
			bad := bytes.Clone(file)
			copy(bad[i:], file[j:j+page])
			copy(bad[j:], file[i:i+page])
			try(bad, "pages at %d and %d swapped", i, j)
		}
	}
	try(other, "file of another file key id")
	foot := len(file) - encryptedFooterSize
	try(append(bytes.Clone(file[:foot]), other[foot:]...), "footer of another file key id")
	dir2 := int(binary.LittleEndian.Uint64(file[foot+16:]))
	try(append(bytes.Clone(file[:dir2]), other[dir2:]...), "directory and footer of another file key id")
}

func TestKeyIDDecidesHowAFileIsRead(t *testing.T) {
	dir := t.TempDir()
	file, m := writeEncrypted(t, dir)
	plain := m
	plain.Files = []layout.RunFile{m.Files[0]}
	plain.Files[0].KeyID = crypt.FileKeyID{}
	if _, err := Open(openConfig(dir, false), plain); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("read as a plain one: %v", err)
	}
	cfg := openConfig(dir, false)
	cfg.Ring = nil
	if _, err := Open(cfg, m); err == nil {
		t.Error("read without keys")
	}
	if _, err := OpenRemains(OpenConfig{Files: pageio.NewFiles(vfs.OS(), 0), Dir: dir, UUID: testUUID}, 7, 0, crypt.FileKeyID{}); err == nil {
		t.Error("remains are read without keys")
	}
	unwrap := errors.New("no such key")
	cfg.Ring = crypt.NewRing(nil, func(crypt.ID) (crypt.DataKey, error) { return crypt.DataKey{}, unwrap })
	if _, err := Open(cfg, m); !errors.Is(err, unwrap) {
		t.Errorf("the ring's error: %v", err)
	}
	if uuid, ok := Owner(pageio.NewFiles(vfs.OS(), 0), filepath.Join(dir, "000007.run"), 7); !ok || uuid != testUUID {
		t.Errorf("owner %x, %v", uuid, ok)
	}
	all := append(goldenFileOf(t, 1), file[:chunk.PageSize]...)
	if err := os.WriteFile(filepath.Join(dir, "000007.run"), all[:len(file)], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(openConfig(dir, false), m); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("a plain file in its place: %v", err)
	}
}

func goldenFileOf(t *testing.T, which int) []byte {
	b, _ := goldenFile(t, which)
	return b
}

// Without keys, nothing of keys, values, bounds or hashes can be read.
func TestEncryptedFilesTellNothing(t *testing.T) {
	dir := t.TempDir()
	ring = testRing
	defer func() { ring = nil }()
	var all []entry.Entry
	for i := range 3000 {
		all = append(all, entry.Entry{Key: fmt.Appendf(nil, "secret-key-%09d", i), Value: bytes.Repeat([]byte("secret"), i%50), Version: 1, Kind: entry.Set})
	}
	cfg := writerConfig(dir)
	cfg.FilterKeys = 1000
	m := writeRun(t, cfg, all, rangedel.Delete{Lo: []byte("secret-a"), Hi: []byte("secret-b"), Version: 2})
	file, err := os.ReadFile(filepath.Join(dir, "000007.run"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(file, []byte("secret")) || bytes.Contains(file, []byte("cret-k")) {
		t.Error("keys or values are in the file")
	}
	// Whatever was written, its bytes look random: each value of a byte comes as often.
	var counts [256]int
	for _, b := range file[headerSize : len(file)-encryptedFooterSize] {
		counts[b]++
	}
	want := float64(len(file)-headerSize-encryptedFooterSize) / 256
	for b, n := range counts {
		if float64(n) < want*0.8 || float64(n) > want*1.2+200 {
			t.Errorf("byte %#x comes %d times, want some %.0f", b, n, want)
		}
	}
	r := openRun(t, openConfig(dir, false), m)
	r.Verify(t.Context(), func(c *errs.Corruption) { t.Error(c) }, nil)
}

// Without its directory, header page or both, the chunks of an encrypted file are found by
// their trailers, as long as one of the two names the file key id.
func TestRemainsOfEncryptedFiles(t *testing.T) {
	for _, tc := range []struct {
		name             string
		header, dir, end bool // damaged
		known            bool // from elsewhere: its file key id
		want             int
	}{
		{"sound", false, false, false, false, 3},
		{"no header", true, false, false, false, 3},
		{"no directory", false, true, false, false, 3},
		{"no footer", false, true, true, false, 3},
		{"no header, no directory", true, true, false, false, 3},
		{"no header, no footer", true, false, true, false, 0},
		{"no header, no footer, known", true, false, true, true, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			file, m := writeEncrypted(t, dir)
			foot := len(file) - encryptedFooterSize
			if tc.header {
				clear(file[:headerSize])
			}
			if tc.dir {
				clear(file[binary.LittleEndian.Uint64(file[foot+16:]):foot])
			}
			if tc.end {
				clear(file[foot:])
			}
			if err := os.WriteFile(filepath.Join(dir, "000007.run"), file, 0o600); err != nil {
				t.Fatal(err)
			}
			cfg := openConfig(dir, true)
			cfg.Files = pageio.NewFiles(cfg.FS, 0)
			other := m.Files[0].KeyID
			other.Salt[0]++
			if _, err := OpenRemains(cfg, 7, 0, other); !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("as a file with another file key id: %v", err)
			}
			keyID := crypt.FileKeyID{}
			if tc.known {
				keyID = m.Files[0].KeyID
			}
			r, err := OpenRemains(cfg, 7, 0, keyID)
			if tc.want == 0 {
				if !errors.Is(err, errs.ErrCorrupt) {
					t.Errorf("remains: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			n := 0
			for {
				e, hole := r.Next()
				if e == nil && hole == nil {
					break
				}
				if e != nil && !isRangeDeletes(e.Key) {
					if !same(e, &goldens[1].entries[n]) {
						t.Errorf("entry %d: %s", n, brief(e))
					}
					n++
				}
			}
			if n != tc.want || r.Whole() != (!tc.dir && !tc.end) {
				t.Errorf("%d entries, whole: %v", n, r.Whole())
			}
		})
	}
}

// manyBlocks is a run of some 500 blocks, and its entries.
func manyBlocks(t *testing.T, cache int64) (*Reader, []entry.Entry) {
	t.Helper()
	var all []entry.Entry
	for i := range 60_000 {
		all = append(all, entry.Entry{Key: fmt.Appendf(nil, "key%08d", i), Value: fmt.Appendf(nil, "%0100d", i), Version: 1, Kind: entry.Set})
	}
	dir := t.TempDir()
	ring = testRing
	defer func() { ring = nil }()
	cfg := openConfig(dir, false)
	cfg.Cache = pageio.NewCache(cache)
	return openRun(t, cfg, writeRun(t, writerConfig(dir), all)), all
}

// Whatever is asked, decrypted bytes stay within the cache's limit, and values that were
// handed out stay as they are.
func TestDecryptedMemoryIsBounded(t *testing.T) {
	const limit = 512 << 10
	r, all := manyBlocks(t, limit)
	var held [][]byte
	var which []int
	rng := rand.New(rand.NewPCG(1, 2))
	var e entry.Entry
	for range 3000 {
		i := rng.IntN(len(all))
		if ok, err := r.Get(all[i].Key, checksum.HashKey(testSeed, all[i].Key), 1, &e); !ok || err != nil {
			t.Fatal(ok, err)
		}
		held, which = append(held, e.Value), append(which, i)
		if n := r.cache.Bytes(); n > limit {
			t.Fatalf("%d bytes, the limit is %d", n, limit)
		}
	}
	it := r.Iterator()
	i := 0
	for ok := it.First(); ok; ok = it.Next() {
		if i%100 == 0 {
			held, which = append(held, it.Entry().Value), append(which, i)
		}
		i++
		if n := r.cache.Bytes(); n > limit {
			t.Fatalf("%d bytes in a walk, the limit is %d", n, limit)
		}
	}
	if i != len(all) || it.Err() != nil {
		t.Fatalf("%d entries: %v", i, it.Err())
	}
	for i, v := range held {
		if !bytes.Equal(v, all[which[i]].Value) {
			t.Fatalf("value %d has changed", which[i])
		}
	}
	if err := r.Close(); err != nil || r.cache.Bytes() != 0 {
		t.Errorf("%d bytes after Close, %v", r.cache.Bytes(), err)
	}
}

// A walk over all of a run, in either direction, doesn't push out what gets use, and
// background work puts nothing into the cache.
func TestWalksLeaveTheCacheAsItIs(t *testing.T) {
	r, all := manyBlocks(t, 1<<20)
	var e entry.Entry
	get := func(i int) []byte {
		if ok, err := r.Get(all[i].Key, checksum.HashKey(testSeed, all[i].Key), 1, &e); !ok || err != nil {
			t.Fatal(ok, err)
		}
		return e.Value
	}
	// Other blocks fill the cache.
	for i := 0; i < len(all); i += 50 {
		get(i)
	}
	hot := func() (where []*byte) {
		for i := 0; i < len(all); i += len(all) / 10 {
			get(i)
			get(i)
			where = append(where, &get(i)[0])
		}
		return where
	}
	hot()
	before := hot()
	for n, walk := range []struct{ start, move func(iterator.Iterator) bool }{
		{iterator.Iterator.First, iterator.Iterator.Next}, {iterator.Iterator.Last, iterator.Iterator.Prev},
	} {
		it := r.Iterator()
		for ok := walk.start(it); ok; ok = walk.move(it) {
		}
		for i, p := range hot() {
			if p != before[i] {
				t.Errorf("walk %d has pushed out block %d", n, i)
			}
		}
	}
	in := r.cache.Bytes()
	it := r.Copier()
	for ok := it.First(); ok; ok = it.Next() {
	}
	it.Close()
	r.Verify(t.Context(), func(c *errs.Corruption) { t.Error(c) }, nil)
	if now := r.cache.Bytes(); now > in {
		t.Errorf("background work has added %d bytes", now-in)
	}
}

// FuzzEncryptedRun is FuzzRun for encrypted files: what is damaged is encrypted again under
// the right key, so that tags are right and the damage reaches the decoders.
func FuzzEncryptedRun(f *testing.F) {
	if invariant.Enabled {
		f.Skip("encrypts twice under a nonce")
	}
	type sample struct {
		text []byte // the file, decrypted
		dir  *directory
		ft   *footer
		m    layout.RunMeta
	}
	samples := make([]sample, len(goldens))
	for i := range goldens {
		ring = newRing(make([]byte, 16))
		file, m := goldenFile(f, i)
		ring = nil
		at := len(file) - encryptedFooterSize
		cfg := openConfig("", false)
		o, err := cfg.newOrigin(7, m.Files[0].KeyID)
		if err != nil {
			f.Fatal(err)
		}
		ft, err := decodeFooter(file[at:], &o.owner, int64(at), "")
		if err != nil {
			f.Fatal(err)
		}
		text := append(make([]byte, 0, len(file)+chunk.Room), file...)
		if err := o.decryptImage(text, ft); err != nil {
			f.Fatal(err)
		}
		dir, err := decodeDirectory(text[ft.DirOffset:][:ft.DirSize], ft.DirOffset, true)
		if err != nil {
			f.Fatal(err)
		}
		samples[i] = sample{text, dir, ft, m}
		if again := encryptImage(f, bytes.Clone(text), dir, ft); !bytes.Equal(again, file) {
			f.Fatalf("%s: encrypted again it is not what it was", goldens[i].name)
		}
		size := len(file)
		corpus.Add(f, byte(i), uint32(0), uint64(0), uint32(0), uint64(0))
		for _, at := range []int{4104, 4136, 8192, 12288, 12304, 12312, 12320, size - 100, size - 150, size - 200, size - 300, size - 400, size - 700} {
			corpus.Add(f, byte(i), uint32(at), uint64(0xffffffff), uint32(at+8), uint64(1)<<62)
			corpus.Add(f, byte(i), uint32(at), uint64(1), uint32(at+4), uint64(1))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, at1 uint32, x1 uint64, at2 uint32, x2 uint64) {
		s := &samples[int(which)%len(samples)]
		bad := append(make([]byte, 0, len(s.text)+chunk.Room), s.text...)
		for _, c := range []struct {
			at uint32
			x  uint64
		}{{at1, x1}, {at2, x2}} {
			p := bad[uint64(c.at)%uint64(len(bad)-8):]
			binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^c.x)
		}
		bad = encryptImage(t, bad, s.dir, s.ft)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "000007.run"), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		m := s.m
		m.Files = []layout.RunFile{{Num: 7, Size: uint64(len(bad)), KeyID: s.m.Files[0].KeyID}}
		for _, noMap := range []bool{false, true} {
			askAll(t, dir, m, noMap)
		}
		if err := Dump(new(bytes.Buffer), bad, testRing); err != nil {
			t.Fatal(err)
		}
		walkRemains(t, dir)
		// Without its end the file has no directory: chunks are found by their trailers.
		if err := os.Truncate(filepath.Join(dir, "000007.run"), int64(len(bad)-encryptedFooterSize)); err != nil {
			t.Fatal(err)
		}
		walkRemains(t, dir)
	})
}

// encryptImage encrypts a whole file in place under the file key id of newRing(zeros), with the
// places of units that dir and ft say.
func encryptImage(t testing.TB, file []byte, dir *directory, ft *footer) []byte {
	file = append(make([]byte, 0, len(file)+chunk.Room), file...)
	owner := chunk.Owner{UUID: testUUID, Num: 7}
	e, keyID, err := newRing(make([]byte, 16)).New(cryptFile(&owner))
	if err != nil {
		t.Fatal(err)
	}
	unit := func(u crypt.Unit, off, from, to int, data []byte) []byte {
		tag, err := chunk.Encrypt(file[from:to], u, int64(off), max(to-off, 1), data, e)
		if err != nil {
			t.Fatal(err)
		}
		return tag[:]
	}
	copy(file, encryptedHeader(t, e, &owner, keyID))
	// Units in the order of the file: chunks, and filters between them and behind.
	filters := dir.filters
	var tags []byte
	for i := 0; i <= len(dir.chunks); i++ {
		for len(filters) > 0 && (i == len(dir.chunks) || filters[0].offset < uint64(dir.chunks[i].Offset)) {
			f := filters[0]
			for at, end := int(f.offset), int(f.offset+8*f.words); at < end; at += chunk.PageSize {
				tags = append(tags, unit(crypt.Filter, at, at, min(at+chunk.PageSize, end), nil)...)
			}
			filters = filters[1:]
		}
		if i == len(dir.chunks) {
			break
		}
		c := &dir.chunks[i]
		begin, start := int(c.Offset), int(c.Offset)+c.TrailerStart()
		// The tags are the only section with this header.
		head := binary.LittleEndian.AppendUint32([]byte{8, 0, 1, 0}, uint32(16*c.TrailerStart()/chunk.PageSize))
		list := bytes.Index(file[start:start+c.TrailerSize], head)
		for at := begin; at < start; at += chunk.PageSize {
			tag := unit(crypt.Page, at, at, at+chunk.PageSize, nil)
			if list >= 0 {
				copy(file[start+list+8+(at-begin)/chunk.PageSize*crypt.TagSize:], tag)
			}
		}
		copy(file[start:], unit(crypt.Trailer, start, start+24, start+c.TrailerSize, file[start+16:start+24]))
	}
	at := int(ft.DirOffset)
	head := binary.LittleEndian.AppendUint32([]byte{24, 0, 1, 0}, uint32(len(tags)))
	if list := bytes.Index(file[at:], head); list >= 0 {
		copy(file[at+list+8:], tags)
	}
	foot := len(file) - encryptedFooterSize
	copy(file[foot+footerDirTag:], unit(crypt.Directory, at, at, foot, nil))
	copy(file[foot+footerTag:], unit(crypt.Footer, foot, foot, foot, footerData(file[foot:])))
	binary.LittleEndian.PutUint32(file[foot:], owner.ID().Sum(int64(foot), file[foot+4:]))
	return file
}

func encryptedHeader(t testing.TB, e *crypt.Encrypter, owner *chunk.Owner, keyID crypt.FileKeyID) []byte {
	p, err := newHeader(owner, e, keyID)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
