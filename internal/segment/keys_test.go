package segment

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/invariant"
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

// goldenConfig is encryptedConfig with lives that are the same in each run of the test.
func goldenConfig(t *testing.T) Config {
	if invariant.Enabled {
		t.Skip("a test that runs twice would use nonces twice")
	}
	c := testConfig(t)
	c.Ring = testRing(t, rand.NewChaCha8(sha256.Sum256([]byte(t.Name()))))
	return c
}

// testRing has data keys for all ids, and draws lives from random.
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

// openAny is Open with the life that the file has.
func openAny(c Config, kind filename.Kind, number entry.FileNum, o OpenOptions) (r *Reader, err error) {
	if c.Ring != nil {
		o.Life, err = LifeOf(c, kind, number)
	}
	if err != nil {
		return nil, err
	}
	return Open(c, kind, number, o)
}

// A file that is not the one that was recorded is refused, though it is whole: one of
// another life, a plain one, an encrypted one. So is a header that was changed, with a new
// checksum, and what a store without the key is given.
func TestAnotherFileIsRefused(t *testing.T) {
	c, plain := encryptedConfig(t), testConfig(t)
	fork := encryptedConfig(t)
	write := func(c Config) (segment, remap crypt.Life) {
		must(WriteRemap(c, RemapHeader{Number: 7, Source: 3, Target: 6}, randomMoves(rand.New(rand.NewPCG(1, 1)), 300, 9)))(t)
		w := must(Create(c, Header{Kind: filename.Journal, Number: 5, FirstFrame: 1, Tag: crypt.Tag{1, 2}}))(t)
		closed(t, w)
		return must(LifeOf(c, filename.Journal, 5))(t), must(LifeOf(c, filename.Remap, 7))(t)
	}
	s, m := write(c)
	fs, fm := write(fork)
	if zs, zm := write(plain); !zs.IsZero() || !zm.IsZero() || s.IsZero() || m.IsZero() || s == fs || m == fm || s == m {
		t.Fatalf("lives are %x, %x, of a fork %x, %x, of plain files %x, %x", s, m, fs, fm, zs, zm)
	}
	if h := must(ReadHeader(c, filename.Journal, 5))(t); h.Life != s || h.Tag != (crypt.Tag{1, 2}) {
		t.Errorf("header %+v", h)
	}
	open := func(c Config, segment, remap crypt.Life) error {
		r, err := Open(c, filename.Journal, 5, OpenOptions{Life: segment})
		if err == nil {
			closed(t, r)
		}
		again, remapErr := OpenRemap(c, 7, remap, false)
		if remapErr == nil {
			closed(t, again)
		}
		if (err == nil) != (remapErr == nil) || errors.Is(err, errs.ErrCorrupt) != errors.Is(remapErr, errs.ErrCorrupt) {
			t.Errorf("segment: %v; remap: %v", err, remapErr)
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
		"encrypted":               open(c, crypt.Life{}, crypt.Life{}),
		"encrypted, without keys": open(keyless, crypt.Life{}, crypt.Life{}),
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
	if err := errors.Join(open(c, s, m), open(within(c, plain), crypt.Life{}, crypt.Life{})); err != nil {
		t.Error(err)
	}
	for _, name := range []string{c.path(filename.Journal, 5), c.path(filename.Remap, 7)} {
		b := must(os.ReadFile(name))(t)
		for i := range sumOffset {
			bad := bytes.Clone(b)
			bad[i] ^= 4
			id := c.id(filename.Kind(b[3]), entry.FileNum(binary.LittleEndian.Uint64(b[16:])))
			binary.LittleEndian.PutUint32(bad[sumOffset:], id.Sum(0, bad[:sumOffset]))
			changed := c
			changed.FS = image{data: bad}
			var err error
			if b[3] == 'J' {
				_, err = Open(changed, filename.Journal, 5, OpenOptions{Life: s, NoMap: true})
			} else {
				_, err = OpenRemap(changed, 7, m, true)
			}
			behind := i >= 208 // what the tag covers, and the tag
			if (err == nil) != behind {
				t.Fatalf("%s, byte %d of the header changed: %v", name, i, err)
			}
		}
	}
}
