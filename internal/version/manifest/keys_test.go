package manifest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// plainSlot encodes s without a key.
func plainSlot(s *Super, offset int64) []byte {
	p, _ := s.encodeSlot(slotKey{}, offset)
	return p
}

// testRing has one data key, or two, and draws file key ids that a seed says.
func testRing(seed byte, ids ...byte) *crypt.Ring {
	r := crypt.NewRing(rand.NewChaCha8([32]byte{seed}), func(id crypt.ID) (crypt.DataKey, error) {
		for _, known := range ids {
			if id == (crypt.ID{known}) {
				return crypt.DataKey{ID: id, Cipher: crypt.AES256GCM, Key: [32]byte{known, seed}}, nil
			}
		}
		return crypt.DataKey{}, errs.ErrKey
	})
	if err := r.SetCurrent(crypt.ID{ids[0]}); err != nil {
		panic(err)
	}
	return r
}

// testKeys is nil, but within TestWithKeys.
var testKeys Keys

func (k Keys) ring() *crypt.Ring {
	if k == nil {
		return nil
	}
	r, _ := k([16]byte{}, false)
	return r
}

// TestWithKeys: all that holds of a plain log holds of an encrypted one.
func TestWithKeys(t *testing.T) {
	ring := testRing(7, 1)
	testKeys = func([16]byte, bool) (*crypt.Ring, error) { return ring, nil }
	defer func() { testKeys = nil }()
	for name, test := range map[string]func(*testing.T){
		"FullDiskAtEveryWrite": TestFullDiskAtEveryWrite, "SyncWithoutSpaceStops": TestSyncWithoutSpaceStops,
		"CreateOpenAppend": TestCreateOpenAppend, "NewManifestWhenTheOldIsFull": TestNewManifestWhenTheOldIsFull,
		"EitherSlotLeadsToTheNewestState": TestEitherSlotLeadsToTheNewestState, "DamagedSuperIsMended": TestDamagedSuperIsMended,
		"DirectoriesThatAreNotTaken": TestDirectoriesThatAreNotTaken, "CrashAtEveryCall": TestCrashAtEveryCall,
		"FailureOfEveryCall": TestFailureOfEveryCall, "FailStop": TestFailStop, "ReadOnlyWritesNothing": TestReadOnlyWritesNothing,
		"RefreshMeetsAnotherCopy": TestRefreshMeetsAnotherCopy, "Register": TestRegister, "Sessions": TestSessions, "VerifyFindsDamage": TestVerifyFindsDamage,
		"StoppedLogLeavesSuperAlone": TestStoppedLogLeavesSuperAlone,
	} {
		t.Run(name, test)
	}
}

func TestGoldenEncrypted(t *testing.T) { testGolden(t, "encrypted-", testRing(1, 1)) }

func keysOf(r *crypt.Ring) Keys { return func([16]byte, bool) (*crypt.Ring, error) { return r, nil } }

// TestFileKeyIDsAreKept: the manifest has the file key id of each file, and the data key, also in a
// snapshot.
func TestFileKeyIDsAreKept(t *testing.T) {
	keyID := func(n byte) crypt.FileKeyID {
		return crypt.FileKeyID{Cipher: crypt.AES256GCM, Key: crypt.ID{1}, Salt: [16]byte{n}}
	}
	o := Options{Keys: keysOf(testRing(3, 1)), FS: vfs.NewMem(), Dir: "db"}
	l := mustCreate(t, o)
	mustAppend(t, l, &layout.Edit{
		AddSegments: []layout.Segment{{Num: 1, Kind: filename.Value, KeyID: keyID(1)}, {Num: 2, Kind: filename.Value, KeyID: keyID(2)}},
		AddRuns:     []layout.Run{{ID: 3, Order: 1, RunMeta: layout.RunMeta{Files: []layout.RunFile{{Num: 3, KeyID: keyID(3)}, {Num: 4}}}}},
		States:      []layout.SegmentState{{Num: 1, Status: layout.Relocated, Map: 5, Target: 2, KeyID: keyID(5)}},
		JournalEnds: []frame.End{{Name: frame.Name{File: 6, Number: 1, KeyID: keyID(6), Tag: crypt.Tag{9}}}},
	})
	if _, err := l.Append(&layout.Edit{JournalEnds: []frame.End{{Name: frame.Name{File: 6, Number: 2, KeyID: keyID(7)}}}}); !errors.Is(err, layout.ErrConflictingEdit) {
		t.Errorf("another file of the same number: %v", err)
	}
	check := func(l *layout.Layout) {
		t.Helper()
		switch r := l.Run(3); {
		case l.DataKey() != layout.DataKey{ID: crypt.ID{1}}:
			t.Error(l.DataKey())
		case l.Segment(1).KeyID != keyID(1) || l.Segment(2).KeyID != keyID(2) || l.Segment(1).State().KeyID != keyID(5):
			t.Errorf("segments %+v", l.Segments())
		case r.Files[0].KeyID != keyID(3) || r.Files[1].KeyID != crypt.FileKeyID{}:
			t.Errorf("%v", r.Files)
		case l.JournalEnds()[0] != frame.End{Name: frame.Name{File: 6, Number: 1, KeyID: keyID(6), Tag: crypt.Tag{9}}}:
			t.Errorf("%v", l.JournalEnds())
		}
	}
	check(l.Layout())
	mustClose(t, l)
	l, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	check(l.Layout())
	again, err := layout.New().Apply(l.Layout().Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	check(again)
}

// TestWrongKeysTouchNothing: ErrKey leaves each byte as it was.
func TestWrongKeysTouchNothing(t *testing.T) {
	ring := testRing(4, 1)
	mem := vfs.NewMem()
	right := Options{Keys: keysOf(ring), FS: mem, Dir: "db"}
	mustClose(t, mustCreate(t, right))
	mustClose(t, mustCreate(t, Options{FS: mem, Dir: "plain"}))
	without := crypt.NewRing(nil, func(crypt.ID) (crypt.DataKey, error) { return crypt.DataKey{}, errs.ErrKey })
	for name, o := range map[string]Options{
		"no key":         {FS: mem, Dir: "db"},
		"another key":    {FS: mem, Dir: "db", Keys: keysOf(testRing(5, 1))},
		"no such key":    {FS: mem, Dir: "db", Keys: keysOf(without)},
		"a key too many": {FS: mem, Dir: "plain", Keys: keysOf(ring)},
	} {
		t.Run(name, func(t *testing.T) {
			before := append(get(t, mem, o.Dir+"/SUPER"), get(t, mem, o.Dir+"/MANIFEST-000001")...)
			if _, err := Open(o); !errors.Is(err, errs.ErrKey) {
				t.Errorf("Open: %v", err)
			}
			if _, err := CreateStore(o, testStore); !errors.Is(err, errs.ErrExist) {
				t.Errorf("Create: %v", err)
			}
			if !bytes.Equal(before, append(get(t, mem, o.Dir+"/SUPER"), get(t, mem, o.Dir+"/MANIFEST-000001")...)) {
				t.Error("something was written")
			}
		})
	}
	if err := CheckOpenable(Options{FS: mem, Dir: "db"}); !errors.Is(err, errs.ErrKey) {
		t.Errorf("Look: %v", err)
	}
	if err := CheckOpenable(right); err != nil {
		t.Errorf("Look: %v", err)
	}
}

// TestFramesOfAFork: of two copies that both went on from one state, no frame of one is
// taken for one of the other, although lengths and numbers fit; and none is left out.
func TestFramesOfAFork(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{Keys: keysOf(testRing(6, 1)), FS: mem, Dir: "a"}
	mustClose(t, mustCreate(t, o))
	name := filename.Of(filename.Manifest, 1)
	if err := mem.MkdirAll("b"); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{name, "SUPER"} {
		put(t, mem, "b/"+base, get(t, mem, "a/"+base))
	}
	var last int64
	for _, o.Dir = range []string{"a", "b"} {
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		for v := range entry.Version(3) {
			last = l.end.Offset
			mustAppend(t, l, &layout.Edit{LastVersion: v + 1})
		}
		mustClose(t, l)
	}
	a, b := get(t, mem, "a/"+name), get(t, mem, "b/"+name)
	if len(a) != len(b) || bytes.Equal(a, b) {
		t.Fatal("the copies should be as long and different")
	}
	put(t, mem, "a/"+name, slices.Concat(a[:last], b[last:]))
	o.Dir = "a"
	if _, err := Open(o); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("a frame of the copy: %v", err)
	}
	put(t, mem, "a/"+name, b)
	if _, err := Open(o); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("the manifest of the copy, whole: %v", err)
	}
}
