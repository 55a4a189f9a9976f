package segment

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/base/invariant"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// forms runs a test with files that are plain, and with encrypted ones.
func forms(t *testing.T, test func(t *testing.T, testConfig func(testing.TB) Config)) {
	t.Run("plain", func(t *testing.T) { test(t, testConfig) })
	t.Run("encrypted", func(t *testing.T) { test(t, encryptedConfig) })
}

// encryptedConfig is testConfig with keys.
func encryptedConfig(t testing.TB) Config {
	c := testConfig(t)
	c.Ring = testRing(t, nil)
	return c
}

// goldenConfig is encryptedConfig with file key ids that are the same in each run of the test.
func goldenConfig(t *testing.T) Config {
	if invariant.Enabled {
		t.Skip("a test that runs twice would use nonces twice")
	}
	c := testConfig(t)
	c.Ring = testRing(t, rand.NewChaCha8(sha256.Sum256([]byte(t.Name()))))
	return c
}

// testRing has data keys for all ids, and draws file key ids from random.
func testRing(t testing.TB, random io.Reader) *crypt.Ring {
	t.Helper()
	r := crypt.NewRing(random, func(id crypt.ID) (crypt.DataKey, error) {
		return crypt.DataKey{ID: id, Cipher: crypt.AES256GCM, Key: [crypt.KeySize]byte{id[0], 1}}, nil
	})
	if err := r.SetCurrent(crypt.ID{7}); err != nil {
		t.Fatal(err)
	}
	return r
}

// keyIDOf returns the file key id that the header page of a segment or forwarding table names.
func keyIDOf(c Config, kind filename.Kind, number entry.FileNum) (crypt.FileKeyID, error) {
	page, err := pageio.ReadHead(c.FS, c.filePath(kind, number), HeaderSize)
	if err != nil {
		return crypt.FileKeyID{}, err
	}
	keyID, _, err := c.checkPage(page, kind, number, nil)
	return keyID, headerError(filename.Of(kind, number), err)
}

// openAny is Open with the file key id that the file has.
func openAny(c Config, kind filename.Kind, number entry.FileNum, o OpenOptions) (r *Reader, err error) {
	if c.Ring != nil {
		o.KeyID, err = keyIDOf(c, kind, number)
	}
	if err != nil {
		return nil, err
	}
	return Open(c, kind, number, o)
}

// A file that is not the one that was recorded is refused, though it is whole: one of
// another file key id, a plain one, an encrypted one. So is a header that was changed, with a new
// checksum, and what a store without the key is given.
func TestAnotherFileIsRefused(t *testing.T) {
	c, plain := encryptedConfig(t), testConfig(t)
	fork := encryptedConfig(t)
	write := func(c Config) (segment, forwarding crypt.FileKeyID) {
		must(WriteForwarding(c, ForwardingHeader{Number: 7, Source: 3, Target: 6}, randomMoves(rand.New(rand.NewPCG(1, 1)), 300, 9)))(t)
		w := must(Create(c, Header{Kind: filename.Journal, Number: 5, Before: frame.Name{Tag: crypt.Tag{1, 2}}}))(t)
		closed(t, w)
		return must(keyIDOf(c, filename.Journal, 5))(t), must(keyIDOf(c, filename.Forwarding, 7))(t)
	}
	s, m := write(c)
	fs, fm := write(fork)
	if zs, zm := write(plain); !zs.IsZero() || !zm.IsZero() || s.IsZero() || m.IsZero() || s == fs || m == fm || s == m {
		t.Fatalf("file key ids are %x, %x, of a fork %x, %x, of plain files %x, %x", s, m, fs, fm, zs, zm)
	}
	if h := must(ReadHeader(c, filename.Journal, 5))(t); h.KeyID != s || h.Before.Tag != (crypt.Tag{1, 2}) {
		t.Errorf("header %+v", h)
	}
	open := func(c Config, segment, forwarding crypt.FileKeyID) error {
		r, err := Open(c, filename.Journal, 5, OpenOptions{KeyID: segment})
		if err == nil {
			closed(t, r)
		}
		again, forwardingErr := OpenForwarding(c, 7, forwarding, false)
		if forwardingErr == nil {
			closed(t, again)
		}
		if (err == nil) != (forwardingErr == nil) || errors.Is(err, errs.ErrCorrupt) != errors.Is(forwardingErr, errs.ErrCorrupt) {
			t.Errorf("segment: %v; forwarding table: %v", err, forwardingErr)
		}
		return err
	}
	within := func(c, dir Config) Config { c.Dir = dir.Dir; return c }
	keyless := c
	keyless.Ring = nil
	refuse := c
	refuse.Ring = crypt.NewRing(nil, func(crypt.ID) (crypt.DataKey, error) { return crypt.DataKey{}, errs.ErrKey })
	for name, err := range map[string]error{
		"of a fork":               open(within(c, fork), s, m),
		"plain":                   open(within(c, plain), s, m),
		"encrypted":               open(c, crypt.FileKeyID{}, crypt.FileKeyID{}),
		"encrypted, without keys": open(keyless, crypt.FileKeyID{}, crypt.FileKeyID{}),
	} {
		if !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{"no keys": open(keyless, s, m), "no key": open(refuse, s, m)} {
		if !errors.Is(err, errs.ErrKey) || errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(open(c, s, m), open(within(c, plain), crypt.FileKeyID{}, crypt.FileKeyID{})); err != nil {
		t.Error(err)
	}
	for _, name := range []string{c.filePath(filename.Journal, 5), c.filePath(filename.Forwarding, 7)} {
		b := must(os.ReadFile(name))(t)
		for i := range sumOffset {
			bad := bytes.Clone(b)
			bad[i] ^= 4
			id := c.identity(filename.Kind(b[3]), entry.FileNum(binary.LittleEndian.Uint64(b[16:])))
			binary.LittleEndian.PutUint32(bad[sumOffset:], id.Sum(0, bad[:sumOffset]))
			changed := c
			changed.FS = image{data: bad}
			var err error
			if b[3] == 'J' {
				_, err = Open(changed, filename.Journal, 5, OpenOptions{KeyID: s, NoMap: true})
			} else {
				_, err = OpenForwarding(changed, 7, m, true)
			}
			behind := i >= 208 // what the tag covers, and the tag
			if (err == nil) != behind {
				t.Fatalf("%s, byte %d of the header changed: %v", name, i, err)
			}
		}
	}
}

// A bit that changes anywhere in an encrypted segment is found by who reads it whole.
func TestEveryBitIsFound(t *testing.T) {
	c := encryptedConfig(t)
	w := must(NewValueWriter(c, 5))(t)
	add := func(n int) {
		must(w.Add(&entry.Entry{Key: key(n), Value: value(n, n), Version: 1, Kind: entry.Set}))(t)
	}
	add(0)
	add(100)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	add(301)
	add(entry.PieceSize + 3)
	stats := must(w.Finish())(t)
	clean := must(os.ReadFile(c.filePath(filename.Value, 5)))(t)
	c.FS = image{data: clean}
	read := func() error {
		r, err := Open(c, filename.Value, 5, OpenOptions{KeyID: stats.KeyID, NoMap: true})
		if err != nil {
			return err
		}
		defer r.Close()
		err = r.Scan(true, func(int64, *entry.Record) error { return nil })
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	end := len(clean)
	for at := 0; at < end; at++ {
		// All of the structure, and a part of the pages of zeros and of the pieces.
		if at == 300 {
			at = sumOffset - 10
		} else if at == HeaderSize+800 {
			at = end - 400
		}
		for bit := range 8 {
			clean[at] ^= 1 << bit
			if err := read(); !errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrFormat) && !errors.Is(err, errs.ErrForeign) {
				t.Fatalf("bit %d of byte %d of %d: %v", bit, at, end, err)
			}
			clean[at] ^= 1 << bit
		}
	}
}

// Records and frames that are whole, but stand in another place than they were written to,
// or come from another file of the same number, are refused.
func TestMovedUnitsAreRefused(t *testing.T) {
	c, fork := encryptedConfig(t), encryptedConfig(t)
	fork.Ring = c.Ring
	write := func(c Config) ([]entry.Handle, []byte, crypt.FileKeyID) {
		w := must(NewValueWriter(c, 5))(t)
		var handles []entry.Handle
		for i := range 6 {
			handles = append(handles, must(w.Add(&entry.Entry{Key: key(i), Value: value(i, 100), Version: 1, Kind: entry.Set}))(t))
			if i%2 == 1 {
				must(0, w.Flush())(t)
			}
		}
		stats := must(w.Finish())(t)
		return handles, must(os.ReadFile(c.filePath(filename.Value, 5)))(t), stats.KeyID
	}
	handles, clean, keyID := write(c)
	_, other, _ := write(fork)
	if len(other) != len(clean) {
		t.Fatalf("a fork of %d bytes, want %d", len(other), len(clean))
	}
	size := int(handles[1].Offset - handles[0].Offset)
	frame := int(handles[2].Offset - handles[0].Offset)
	for name, change := range map[string]func(b []byte){
		"records swapped": func(b []byte) {
			copy(b[handles[0].Offset:], clean[handles[1].Offset:][:size])
			copy(b[handles[1].Offset:], clean[handles[0].Offset:][:size])
		},
		"a record of a fork": func(b []byte) { copy(b[handles[0].Offset:], other[handles[0].Offset:][:size]) },
		"a frame twice":      func(b []byte) { copy(b[HeaderSize+frame:], clean[HeaderSize:][:frame]) },
		"a frame of a fork":  func(b []byte) { copy(b[HeaderSize:], other[HeaderSize:][:frame]) },
		"all frames of a fork": func(b []byte) {
			copy(b[HeaderSize:], other[HeaderSize:])
		},
	} {
		b := bytes.Clone(clean)
		change(b)
		bad := c
		bad.FS = image{data: b}
		sumFrames(b, c.identity(filename.Value, 5))
		r := must(Open(bad, filename.Value, 5, OpenOptions{KeyID: keyID, NoMap: true}))(t)
		if err := r.Scan(false, func(int64, *entry.Record) error { return nil }); !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("%s: scan: %v", name, err)
		}
		for i, h := range handles {
			got, err := plain(r.Stored(h, key(i), 1))
			if same := bytes.Equal(b[h.Offset:][:size], clean[h.Offset:][:size]); same != (err == nil) || err == nil && !bytes.Equal(got, value(i, 100)) {
				t.Errorf("%s: value %d: %v", name, i, err)
			}
		}
	}
}

// What is left of a segment is all but the records that are damaged, whatever of the frames
// is; in a damaged frame that is those with a checksum or tag of their own.
func TestRemains(t *testing.T) { forms(t, testRemains) }

func testRemains(t *testing.T, testConfig func(testing.TB) Config) {
	c := testConfig(t)
	lengths := []int{100, 3000, 200, 70_000, 40, 500, 300_000, 900}
	handles, stats := writeValues(t, c, lengths)
	clean := must(os.ReadFile(c.filePath(filename.Value, 5)))(t)
	for name, damage := range map[string]func(b []byte) (lost []int){
		"none":            func([]byte) []int { return nil },
		"header":          func(b []byte) []int { clear(b[:HeaderSize]); return nil },
		"header of frame": func(b []byte) []int { b[HeaderSize+5] ^= 1; return nil },
		"record":          func(b []byte) []int { b[handles[2].Offset+9] ^= 1; return []int{2} },
		"clear bytes":     func(b []byte) []int { b[handles[5].Offset] ^= 2; return []int{5} },
		"two, and the end": func(b []byte) []int {
			b[handles[1].Offset+20] ^= 1
			clear(b[handles[7].Offset+16:])
			return []int{1, 7}
		},
	} {
		b := bytes.Clone(clean)
		lost := damage(b)
		bad := c
		bad.FS = image{data: b}
		r := must(OpenRemains(bad, filename.Value, 5, OpenOptions{KeyID: stats.KeyID}))(t)
		found := map[uint64]bool{}
		err := r.Each(Limits{}, func(off int64, rec *entry.Record) error {
			if i := int(rec.Version) - 1; i < 0 || i >= len(handles) || handles[i].Offset != uint64(off) || !bytes.Equal(rec.Key, key(i)) || rec.ValueSize != lengths[i] {
				t.Errorf("%s: record %+v at %d", name, rec, off)
			}
			found[uint64(off)] = true
			return nil
		}, func(int64, int64) {})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, h := range handles {
			if found[h.Offset] == slices.Contains(lost, i) {
				t.Errorf("%s: record %d of %d bytes, found %v", name, i, lengths[i], found[h.Offset])
			}
		}
		closed(t, r)
	}
}

// A disk that is full at any write leaves what was whole before, and nothing else that
// counts.
func TestFullDisk(t *testing.T) { forms(t, testFullDisk) }

func testFullDisk(t *testing.T, testConfig func(testing.TB) Config) {
	for nth := 1; ; nth++ {
		c := testConfig(t)
		fs := faultfs.New(c.FS, faultfs.Options{})
		fs.Inject(faultfs.Fault{Kinds: faultfs.Write, Nth: nth, Err: faultfs.ErrNoSpace, Short: nth%2 == 0})
		c.FS = fs
		w, err := Create(c, Header{Kind: filename.Journal, Number: 5})
		if err != nil {
			if _, err := os.Stat(c.filePath(filename.Journal, 5)); !os.IsNotExist(err) {
				t.Errorf("write %d: a file without a header: %v", nth, err)
			}
			continue
		}
		whole := 0
		for i := 0; i < 4 && err == nil; i++ {
			if _, err = w.Append(journalFrame(i, 1000+i*(1<<20), i%2 == 0)); err == nil {
				whole++
			}
		}
		full := err != nil
		if full {
			err = w.CutBack()
		}
		if err := errors.Join(err, w.Sync(), w.Close()); err != nil {
			t.Fatalf("write %d: %v", nth, err)
		}
		r := must(openAny(c, filename.Journal, 5, OpenOptions{}))(t)
		totals, err := scanTotals(r, true, func(int64, *entry.Record) error { return nil })
		if err != nil || totals.Records != uint64(whole) {
			t.Errorf("write %d: %+v, %v, want %d records", nth, totals, err, whole)
		}
		closed(t, r)
		if !full {
			return
		}
	}
}

// room lends one piece of memory, again and again.
type room []byte

func (r room) Room(n int) []byte {
	if n > len(r) {
		return nil
	}
	return r[:n]
}

// A read allocates the record, where it is encrypted or not mapped, unless the caller has memory
// for the value, or lends some. A read of what is mapped allocates nothing.
func TestReadsAllocateTheRecordOnly(t *testing.T) { forms(t, testReadsAllocateTheRecordOnly) }

func testReadsAllocateTheRecordOnly(t *testing.T, testConfig func(testing.TB) Config) {
	if invariant.Enabled {
		t.Skip("the race detector allocates")
	}
	c := testConfig(t)
	handles, stats := writeValues(t, c, []int{1000, 70_000})
	for _, noMap := range []bool{false, true} {
		r := must(Open(c, filename.Value, 5, OpenOptions{End: stats.Size, KeyID: stats.KeyID, NoMap: noMap}))(t)
		testAllocationsOfReads(t, r, handles)
		closed(t, r)
	}
}

func testAllocationsOfReads(t *testing.T, r *Reader, handles []entry.Handle) {
	want := float64(0)
	if r.keys != nil || r.file.Mapped() == nil {
		want = 1
	}
	dst := make([]byte, 0, 1000)
	lender := Lender(make(room, 100_000))
	for i, h := range handles {
		read := func() {
			if v, err := r.StoredIn(nil, lender, h, key(i), entry.Version(i+1)); err != nil || v.Own {
				t.Fatalf("value %d of lent memory, own: %v, %v", i, v.Own, err)
			}
		}
		if got := testing.AllocsPerRun(100, read); got > 1 { // one is the key
			t.Errorf("value %d: %v allocations with memory that is lent", i, got-1)
		}
		k, in := key(i), want
		if h.Length <= uint64(cap(dst)) {
			in = 0
		}
		if got := testing.AllocsPerRun(100, func() {
			if _, err := r.StoredIn(dst, nil, h, k, entry.Version(i+1)); err != nil {
				t.Fatal(err)
			}
		}); got != in {
			t.Errorf("value %d: %v allocations, want %v", i, got, in)
		}
		if got := testing.AllocsPerRun(100, func() {
			if _, err := r.Stored(h, k, entry.Version(i+1)); err != nil {
				t.Fatal(err)
			}
		}); got != want {
			t.Errorf("value %d: %v allocations, want %v", i, got, want)
		}
	}
}

// A value that needs memory goes to what the caller gives, if there is room, from a mapping
// or not; and damage leaves what is there.
func TestValuesInMemoryOfTheCaller(t *testing.T) { forms(t, testValuesInMemoryOfTheCaller) }

func testValuesInMemoryOfTheCaller(t *testing.T, testConfig func(testing.TB) Config) {
	c := testConfig(t)
	lengths := []int{1000, 0, 70_000, 300}
	handles, stats := writeValues(t, c, lengths)
	for _, noMap := range []bool{false, true} {
		r := must(Open(c, filename.Value, 5, OpenOptions{End: stats.Size, KeyID: stats.KeyID, NoMap: noMap}))(t)
		for i, h := range handles {
			for _, room := range []int{0, 1, lengths[i], lengths[i] + 50} {
				dst := make([]byte, room)
				v, err := r.StoredIn(dst, nil, h, key(i), entry.Version(i+1))
				if err != nil || v.Bytes == nil || !bytes.Equal(v.Bytes, value(i, lengths[i])) {
					t.Fatalf("value %d in %d bytes: %d bytes, %v", i, room, len(v.Bytes), err)
				}
				if v.Own && room > 0 && lengths[i] > 0 && (&v.Bytes[0] == &dst[0]) != (room >= lengths[i]) {
					t.Errorf("value %d of %d bytes, with %d given: not there", i, lengths[i], room)
				}
				if _, err := r.StoredIn(dst, nil, h, key(i), entry.Version(i+2)); !errors.Is(err, errs.ErrCorrupt) {
					t.Errorf("value %d in %d bytes, of another version: %v", i, room, err)
				}
				if v.Own && len(v.Bytes) > 0 && !bytes.Equal(v.Bytes, value(i, lengths[i])) {
					t.Errorf("value %d: changed by a read that failed", i)
				}
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A record is found behind damage however often the place of its frame was written before: at the
// most attempts that there can be.
func TestRemainsOfTheLastAttempt(t *testing.T) {
	c := encryptedConfig(t)
	w := must(NewValueWriter(c, 5))(t)
	for i := range crypt.MaxAttempt {
		value := bytes.NewReader(nil) // it ends too early, as a value that can't be read
		e := entry.Entry{Key: key(i), Value: make([]byte, entry.PieceSize), Version: 1, Kind: entry.Set}
		if _, err := w.appendLarge(entry.AppendHead(nil, &e), entry.RecordSize(&e, true), value, len(e.Value)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	h := must(w.Add(&entry.Entry{Key: key(7), Value: make([]byte, 500), Version: 3, Kind: entry.Set}))(t)
	stats := must(w.Finish())(t)
	b := must(os.ReadFile(c.filePath(filename.Value, 5)))(t)
	if at, ok := entry.ParseClear(b[h.Offset:]); !ok || at.Attempt != crypt.MaxAttempt {
		t.Fatalf("the record has attempt %d, want %d", at.Attempt, crypt.MaxAttempt)
	}
	b[HeaderSize+5] ^= 1
	c.FS = image{data: b}
	r := must(OpenRemains(c, filename.Value, 5, OpenOptions{KeyID: stats.KeyID}))(t)
	defer closed(t, r)
	found := 0
	err := r.Each(Limits{}, func(_ int64, rec *entry.Record) error {
		if found++; !bytes.Equal(rec.Key, key(7)) {
			t.Errorf("record %+v", rec)
		}
		return nil
	}, func(int64, int64) {})
	if err != nil || found != 1 {
		t.Errorf("%d records, %v", found, err)
	}
}
