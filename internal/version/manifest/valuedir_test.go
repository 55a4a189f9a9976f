package manifest

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/vfs"
)

// twoSupers makes a store whose SUPERs have these slots, those of the store's directory
// first. A slot of nil is zeros.
func twoSupers(t testing.TB, slots [4]*Super) (*vfs.Mem, Options) {
	t.Helper()
	mem := vfs.NewMem()
	o := Options{Keys: testKeys, FS: mem, Dir: "db", ValueDir: "values"}
	l, err := makeStore(o, testStore)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"db/SUPER", "values/SUPER"} {
		f, err := mem.OpenReadWrite(name)
		if err != nil {
			t.Fatal(err)
		}
		for j, s := range slots[2*i : 2*i+2] {
			p := make([]byte, slotSize)
			if s != nil {
				key := storeKey(testKeys.ring())
				if i == 1 {
					key = valuesKey(key.ring)
				}
				if key.ring != nil {
					s.Required = encrypted
				}
				if p, err = s.encodeSlot(key, int64(j)*slotSize); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := f.WriteAt(p, int64(j)*slotSize); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return mem, o
}

// session is a slot of the store's SUPER.
func session(epoch, now, before uint64) *Super {
	return &Super{Major: FormatMajor, UUID: testStore.UUID, Seed: testStore.Seed, Created: testStore.Created,
		Manifest: 1, Epoch: epoch, Session: now, Before: before}
}

// values is a slot of the SUPER of the value directory.
func values(epoch, now uint64) *Super {
	s := session(epoch, now, 0)
	s.Manifest = 0
	return s
}

// TestSessions opens what a crash, a damaged slot or a copy of a directory may leave of the
// two SUPERs.
func TestSessions(t *testing.T) {
	for name, c := range map[string]struct {
		slots [4]*Super
		want  error
	}{
		"they agree":                              {[4]*Super{session(2, 12, 11), session(3, 12, 11), values(2, 12), values(1, 11)}, nil},
		"before the value directory was told":     {[4]*Super{session(2, 12, 11), session(3, 12, 11), values(2, 10), values(3, 11)}, nil},
		"before the second slot was written":      {[4]*Super{session(2, 11, 10), session(3, 12, 11), values(2, 10), values(3, 11)}, nil},
		"creation, before the value directory":    {[4]*Super{session(2, 12, 0), session(1, 12, 0), nil, nil}, nil},
		"creation, in the value directory":        {[4]*Super{session(2, 12, 0), session(1, 12, 0), nil, values(1, 12)}, nil},
		"a damaged slot of the store":             {[4]*Super{nil, session(3, 12, 11), values(2, 12), values(1, 11)}, nil},
		"a damaged slot of the value directory":   {[4]*Super{session(2, 12, 11), session(3, 12, 11), nil, values(3, 11)}, nil},
		"an old copy of the store":                {[4]*Super{session(2, 11, 10), session(3, 11, 10), values(2, 12), values(1, 11)}, errs.ErrForeign},
		"a copy of its first session":             {[4]*Super{session(2, 11, 0), session(1, 11, 0), values(2, 12), values(1, 11)}, errs.ErrForeign},
		"a store left behind by its copy":         {[4]*Super{session(2, 12, 11), session(3, 12, 11), values(2, 13), values(1, 11)}, errs.ErrForeign},
		"the value directory lost its SUPER":      {[4]*Super{session(2, 12, 11), session(3, 12, 11), nil, nil}, errs.ErrCorrupt},
		"a store of its own as a value directory": {[4]*Super{session(2, 12, 11), session(3, 12, 11), session(2, 12, 11), nil}, errs.ErrForeign},
		"a value directory as a store":            {[4]*Super{values(2, 12), values(3, 12), values(2, 12), nil}, errs.ErrForeign},
		"made without a value directory":          {[4]*Super{session(2, 0, 0), session(3, 0, 0), nil, nil}, errs.ErrInvalid},
	} {
		_, o := twoSupers(t, c.slots)
		for range 2 {
			l, err := Open(o)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			if err == nil {
				mustClose(t, l)
			}
		}
	}
}

// FuzzSuper opens stores whose SUPERs say anything, with right checksums: what is refused
// is not changed, and what is opened once is opened again.
func FuzzSuper(f *testing.F) {
	const fields = 5
	add := func(slots ...*Super) {
		var p []byte
		for _, s := range slots {
			for _, v := range []uint64{uint64(s.Manifest), s.Epoch, s.Durable, s.Session, s.Before} {
				p = binary.LittleEndian.AppendUint64(p, v)
			}
		}
		corpus.Add(f, p, uint32(0), byte(0))
	}
	add(session(2, 12, 11), session(3, 12, 11), values(2, 12), values(1, 11))
	add(session(2, 12, 0), session(1, 12, 0), values(0, 0), values(1, 12))
	add(session(1<<64-1, 12, 11), session(1<<64-2, 12, 11), values(1<<64-1, 12), values(1, 12))
	f.Fuzz(func(t *testing.T, p []byte, at uint32, flip byte) {
		var slots [4]*Super
		for i := range slots {
			var v [fields]uint64
			for j := range v {
				if len(p) >= 8 {
					v[j], p = binary.LittleEndian.Uint64(p), p[8:]
				}
			}
			slots[i] = session(v[1], v[3], v[4])
			slots[i].Manifest, slots[i].Durable = entry.FileNum(v[0]), v[2]
		}
		mem, o := twoSupers(t, slots)
		for _, name := range []string{"db/SUPER", "values/SUPER"} {
			whole := get(t, mem, name)
			whole[int(at)%len(whole)] ^= flip
			put(t, mem, name, whole)
		}
		watched := faultfs.New(mem, faultfs.Options{})
		o.FS = watched
		if _, err := Load(o); err == nil {
			l, err := Open(o)
			if err != nil {
				t.Fatalf("loaded and not opened: %v", err)
			}
			mustClose(t, l)
			if l, err = Open(o); err != nil {
				t.Fatalf("opened once: %v", err)
			}
			mustClose(t, l)
		} else if n := watched.Count(faultfs.Changes, ""); n > 0 {
			t.Fatalf("refused (%v) after %d changes", err, n)
		}
	})
}
