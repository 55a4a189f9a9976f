package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// weak is a provider whose wrapped keys are always the same.
type weak struct{}

func (weak) WrapKey(_ context.Context, key, _ []byte) ([]byte, error) { return turned(key), nil }

func (weak) UnwrapKey(_ context.Context, wrapped, _ []byte) ([]byte, error) {
	return turned(wrapped), nil
}

func turned(p []byte) []byte {
	p = bytes.Clone(p)
	slices.Reverse(p)
	return p
}

// counting is a source of bytes that are always the same.
type counting struct{ n byte }

func (c *counting) Read(p []byte) (int, error) {
	for i := range p {
		c.n++
		p[i] = c.n
	}
	return len(p), nil
}

// encrypted is s with a new keyring. Its files are plain: those of a store that has just been given
// keys.
func encrypted(t testing.TB, s checkpoint.Fileset) checkpoint.Fileset {
	t.Helper()
	return encryptedBy(t, s, nil)
}

// encryptedBy is encrypted with keys and file key ids that are drawn from random. One that repeats
// itself gives another stream the same nonces: what it encrypts must be the same each time.
func encryptedBy(t testing.TB, s checkpoint.Fileset, random io.Reader) checkpoint.Fileset {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.MkdirAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	k := must(keyring.Create(keyring.Options{FS: mem, Dir: s.Dir, UUID: s.UUID, Keys: weak{}, Created: s.Created, Random: random}))(t)
	s.Ring, s.Keys = k.Ring(), k.Content()
	e := s.Layout.Snapshot()
	e.DataKey = layout.DataKey{ID: s.Ring.Current()}
	s.Layout = must(layout.New().Apply(e))(t)
	return s
}

// TestEncryptedStream: the layout, with its keys, is in no stream of an encrypted store. What
// needs keys says so; what doesn't goes without.
func TestEncryptedStream(t *testing.T) {
	s := encrypted(t, source(t, 3, 100, 5000, 300_000))
	p, info := stream(t, s, Options{Compress: true})
	var seed [8]byte
	binary.LittleEndian.PutUint64(seed[:], s.Seed)
	edit := manifest.AppendEdit(nil, s.Layout.Snapshot())
	head := p[:firstFile(p)]
	for what, secret := range map[string][]byte{"the layout": edit[:32], "a bound": []byte("\x00key 0"), "the seed": seed[:]} {
		if bytes.Contains(head, secret) {
			t.Errorf("%s is there", what)
		}
	}
	for name, keys := range map[string]keyring.Provider{"without keys": nil, "with keys": weak{}} {
		if got := must(Verify(t.Context(), bytes.NewReader(p), keys))(t); !reflect.DeepEqual(got, info) {
			t.Errorf("%s: %v, want %v", name, got, info)
		}
	}
	restore := func(p []byte, keys keyring.Provider) (*vfs.Mem, error) {
		mem := vfs.NewMem()
		_, err := Restore(t.Context(), bytes.NewReader(p), Target{FS: mem, Dir: "/new", ValueDir: "/new", Keys: keys})
		if names, _ := mem.List("/"); err != nil && len(names) > 0 {
			t.Errorf("%v left %q", err, names)
		}
		return mem, err
	}
	mem, err := restore(p, weak{})
	if err != nil {
		t.Fatal(err)
	}
	log := must(manifest.Load(manifest.Options{FS: mem, Dir: "/new", ReadOnly: true, Keys: func(uuid [16]byte, create bool) (*crypt.Ring, error) {
		k, err := keyring.Open(keyring.Options{FS: mem, Dir: "/new", UUID: uuid, Keys: weak{}})
		if err != nil {
			return nil, err
		}
		return k.Ring(), nil
	}}))(t)
	if super := log.Super(); super.Seed != s.Seed || super.UUID != s.UUID || !super.Encrypted() {
		t.Errorf("the new store has %+v", super)
	}
	if got := manifest.AppendEdit(nil, log.Layout().Snapshot()); !bytes.Equal(got, edit) {
		t.Error("the new store has another layout")
	}
	if names := must(mem.List("/new"))(t); !slices.Contains(names, filename.Of(filename.Keyring, 1)) {
		t.Errorf("the new store has %q", names)
	}

	wrong := keyring.StaticKey(bytes.Repeat([]byte{1}, 32))
	plain, _ := stream(t, source(t, 3, 100), Options{})
	for name, err := range map[string]error{
		"restored without keys":         second(restore(p, nil)),
		"restored with others":          second(restore(p, wrong)),
		"verified with others":          second(Verify(t.Context(), bytes.NewReader(p), wrong)),
		"a plain one, restored by keys": second(restore(plain, weak{})),
		"a plain one, verified by keys": second(Verify(t.Context(), bytes.NewReader(plain), weak{})),
	} {
		if !errors.Is(err, errs.ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// firstFile is where the first record of a file begins in an encrypted stream.
func firstFile(p []byte) int {
	at := headerSize
	for recordKind(p[at+8]) != fileRecord {
		at += recordSize + int(binary.LittleEndian.Uint32(p[at+12:]))
	}
	return at
}

func second[T any](_ T, err error) error { return err }

// TestEncryptedStreamDamage cuts and changes streams, and gives them right checksums again, as
// somebody would who wants a wrong layout to be believed.
func TestEncryptedStreamDamage(t *testing.T) {
	s := encrypted(t, source(t, 3, 100))
	p, _ := stream(t, s, Options{})
	for i := 0; i < firstFile(p); i += 61 {
		for _, keys := range []keyring.Provider{nil, weak{}} {
			_, err := Verify(t.Context(), bytes.NewReader(p[:i]), keys)
			if !errors.Is(err, errs.ErrCorrupt) {
				t.Fatalf("cut at %d: %v", i, err)
			}
			flipped := bytes.Clone(p)
			flipped[i] ^= 4
			if _, err := Verify(t.Context(), bytes.NewReader(flipped), keys); err == nil {
				t.Fatalf("byte %d flipped, and nobody sees it", i)
			}
		}
	}
	forged := func(at int, value byte) error {
		q := bytes.Clone(p)
		q[at] ^= value
		q = mended(q)
		mem := vfs.NewMem()
		_, err := Restore(t.Context(), bytes.NewReader(q), Target{FS: mem, Dir: "/new", ValueDir: "/new", Keys: weak{}})
		return err
	}
	begin := headerSize
	keys := int(binary.LittleEndian.Uint32(p[begin+12:]))
	text := begin + recordSize + keys + recordSize
	for at, what := range map[int]string{
		40: "creation", 48: "version", 64: "digest", headerKeyID + 20: "file key id", headerKeyID + 33: "reserved byte",
		text: "layout", text + 30: "layout",
	} {
		if err := forged(at, 1); err == nil {
			t.Errorf("another %s at %d is believed", what, at)
		}
	}
}
