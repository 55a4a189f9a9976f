package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/test/kit/corpus"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

var testStore = CreateOptions{UUID: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, Seed: 0x1122334455667788, Created: 1700000000123}

// makeStore makes the directories, then the store.
func makeStore(o Options, c CreateOptions) (*Log, error) {
	if err := MakeDirs(o); err != nil {
		return nil, err
	}
	return CreateStore(o, c)
}

func mustCreate(t *testing.T, o Options) *Log {
	t.Helper()
	l, err := makeStore(o, testStore)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustAppend(t *testing.T, l *Log, e *layout.Edit) {
	t.Helper()
	if _, err := l.Append(e); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// put writes a whole file.
func put(t *testing.T, fsys vfs.FS, path string, p []byte) {
	t.Helper()
	_ = fsys.Remove(path)
	f, err := fsys.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(p, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close(), fsys.SyncDir(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, fsys vfs.FS, path string) []byte {
	t.Helper()
	p, err := pageio.ReadHead(fsys, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCreateOpenAppend(t *testing.T) {
	o := Options{Keys: testKeys, FS: vfs.NewMem(), Dir: "db"}
	if _, err := Open(o); !errors.Is(err, errs.ErrNotExist) {
		t.Fatalf("open of nothing: %v", err)
	}
	l := mustCreate(t, o)
	if _, err := makeStore(o, testStore); !errors.Is(err, errs.ErrExist) {
		t.Fatalf("second create: %v", err)
	}
	h := newHistory(3)
	for range 30 {
		mustAppend(t, l, h.edit())
	}
	want := l.Layout()
	mustClose(t, l)
	mustClose(t, l)
	if _, err := l.Append(&layout.Edit{}); !errors.Is(err, errs.ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	h.check(t, l.Layout())
	if text(l.Layout()) != text(want) || l.Recovered() != (Recovery{}) {
		t.Errorf("reopened: %+v\n%s\nwant\n%s", l.Recovered(), text(l.Layout()), text(want))
	}
	s := l.Super()
	if s.UUID != testStore.UUID || s.Seed != testStore.Seed || s.Created != testStore.Created || s.Major != FormatMajor {
		t.Errorf("super %+v", s)
	}
	mustClose(t, l)
}

func TestEditThatDoesNotFitChangesNothing(t *testing.T) {
	o := Options{Keys: testKeys, FS: vfs.NewMem(), Dir: "db"}
	l := mustCreate(t, o)
	path := filepath.Join("db", "MANIFEST-000001")
	before := get(t, o.FS, path)
	if _, err := l.Append(&layout.Edit{DropRuns: []layout.RunID{7}}); !errors.Is(err, layout.ErrConflictingEdit) {
		t.Fatal(err)
	}
	if !bytes.Equal(before, get(t, o.FS, path)) {
		t.Error("the refused edit was written")
	}
	mustAppend(t, l, &layout.Edit{LastVersion: 1})
	mustClose(t, l)
}

func TestNewManifestWhenTheOldIsFull(t *testing.T) {
	o := Options{Keys: testKeys, FS: vfs.NewMem(), Dir: "db", FileBytes: 20 << 10}
	l := mustCreate(t, o)
	h := newHistory(5)
	for range 200 {
		mustAppend(t, l, h.edit())
	}
	if n := l.Super().Manifest; n < 3 {
		t.Errorf("the manifest is number %d after 200 edits", n)
	}
	names, err := o.FS.List("db")
	if err != nil || !slices.Equal(names, []string{filename.Of(filename.Manifest, l.Super().Manifest), "SUPER"}) {
		t.Errorf("files %v, %v", names, err)
	}
	want := text(l.Layout())
	mustClose(t, l)
	if l, err = Open(o); err != nil || text(l.Layout()) != want {
		t.Fatalf("reopened: %v", err)
	}
	h.check(t, l.Layout())
	mustClose(t, l)
}

// filled is a closed store with edits, and its files.
func filled(t *testing.T, clean bool) (fsys *vfs.Mem, o Options, want *layout.Layout, previous *layout.Layout) {
	t.Helper()
	fsys = vfs.NewMem()
	o = Options{Keys: testKeys, FS: fsys, Dir: "db"}
	l := mustCreate(t, o)
	for i := range 5 {
		previous = l.Layout()
		mustAppend(t, l, &layout.Edit{LastVersion: entry.Version(i + 1), AddSegments: []layout.Segment{{Num: entry.FileNum(i + 1), Kind: filename.Value}}})
	}
	want = l.Layout()
	if clean {
		mustClose(t, l)
	}
	return fsys, o, want, previous
}

func TestTornTailIsCut(t *testing.T) {
	fsys, o, want, previous := filled(t, false)
	path := filepath.Join("db", "MANIFEST-000001")
	whole := get(t, fsys, path)
	lastFrame := lastFrame(t, whole)
	for n := lastFrame; n <= len(whole)+100; n++ {
		p := append(slices.Clone(whole), make([]byte, 100)...)[:n]
		put(t, fsys, path, p)
		ro := o
		ro.ReadOnly = true
		l, err := Open(ro)
		if err != nil {
			t.Fatalf("read-only, %d of %d bytes: %v", n, len(whole), err)
		}
		wantLayout, cut := previous, n-lastFrame
		if n >= len(whole) {
			wantLayout, cut = want, n-len(whole)
		}
		if text(l.Layout()) != text(wantLayout) || l.Recovered().CutBytes != int64(cut) {
			t.Fatalf("%d of %d bytes: cut %d, layout\n%s", n, len(whole), l.Recovered().CutBytes, text(l.Layout()))
		}
		if !bytes.Equal(get(t, fsys, path), p) {
			t.Fatal("read-only open wrote")
		}
		if l, err = Open(o); err != nil || text(l.Layout()) != text(wantLayout) {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
		mustAppend(t, l, &layout.Edit{LastVersion: 77})
		mustClose(t, l)
		if l, err = Open(o); err != nil || l.Layout().LastVersion() != 77 || l.Recovered().CutBytes != 0 {
			t.Fatalf("%d of %d bytes, after the cut: %v", n, len(whole), err)
		}
		mustClose(t, l)
		put(t, fsys, filepath.Join("db", "SUPER"), superOf())
	}
}

// superOf makes a SUPER that knows no end, as before a first Close.
func superOf() []byte {
	s := Super{Major: FormatMajor, UUID: testStore.UUID, Seed: testStore.Seed, Created: testStore.Created, Manifest: 1, Epoch: 2}
	a := plainSlot(&s, 0)
	s.Epoch = 1
	return append(a, plainSlot(&s, slotSize)...)
}

// TestEveryFlippedBit damages a closed store, bit by bit. Each flip gives an
// error or leaves what was there: a lost edit is never a third way.
func TestEveryFlippedBit(t *testing.T) {
	fsys, o, want, _ := filled(t, true)
	for _, name := range []string{"SUPER", "MANIFEST-000001"} {
		path := filepath.Join("db", name)
		whole := get(t, fsys, path)
		refused := 0
		for bit := 0; bit < 8*len(whole); bit++ {
			if bit >= 8*600 && bit%101 != 0 {
				continue // the zeros of SUPER: a sample
			}
			p := slices.Clone(whole)
			p[bit/8] ^= 1 << (bit % 8)
			put(t, fsys, path, p)
			ro := o
			ro.ReadOnly = true
			l, err := Open(ro)
			if err != nil {
				refused++
				var c *errs.Corruption
				if !errors.As(err, &c) || c.File != name {
					t.Fatalf("%s, bit %d: %v", name, bit, err)
				}
				continue
			}
			if text(l.Layout()) != text(want) {
				t.Fatalf("%s, bit %d: opened as\n%s\nwant\n%s", name, bit, text(l.Layout()), text(want))
			}
		}
		if name == "SUPER" && refused > 0 {
			t.Errorf("one damaged slot of SUPER refused the store %d times", refused)
		}
		if name != "SUPER" && refused != 8*len(whole) {
			t.Errorf("%s: %d of %d flips were found", name, refused, 8*len(whole))
		}
		put(t, fsys, path, whole)
	}
}

// TestFlipsInAStoreThatWasKilled: only the last frame may pass for a torn tail,
// and then its bytes are counted.
func TestFlipsInAStoreThatWasKilled(t *testing.T) {
	fsys, o, want, previous := filled(t, false)
	path := filepath.Join("db", "MANIFEST-000001")
	whole := get(t, fsys, path)
	o.ReadOnly = true
	cut := 0
	for bit := range 8 * len(whole) {
		p := slices.Clone(whole)
		p[bit/8] ^= 1 << (bit % 8)
		put(t, fsys, path, p)
		l, err := Open(o)
		switch {
		case err != nil && !errors.Is(err, errs.ErrCorrupt):
			t.Fatalf("bit %d: %v", bit, err)
		case err == nil && (l.Recovered().CutBytes == 0 || text(l.Layout()) != text(previous)):
			t.Fatalf("bit %d: opened, %d bytes cut:\n%s\nwant\n%s", bit, l.Recovered().CutBytes, text(l.Layout()), text(want))
		case err == nil:
			cut++
		}
	}
	if last := lastFrame(t, whole); cut != 8*(len(whole)-last) {
		t.Errorf("%d flips were cut off, want all of the last frame: %d", cut, 8*(len(whole)-last))
	}
}

// lastFrame is the offset of the last frame of a manifest.
func lastFrame(t *testing.T, file []byte) (last int) {
	t.Helper()
	_, err := scan(bytes.NewReader(file), int64(len(file)), &Super{UUID: testStore.UUID, Manifest: 1}, nil, func(off int64, _ *frame.Header, _ []byte) error { last = int(off); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// TestFramesAreChained takes a frame from a manifest that went another way.
func TestFramesAreChained(t *testing.T) {
	fsys, o, _, _ := filled(t, false)
	path := filepath.Join("db", "MANIFEST-000001")
	a := get(t, fsys, path)
	at := lastFrame(t, a)
	for _, c := range []struct {
		number uint64
		chain  uint32
	}{{6, 12345}, {7, le.Uint32(a[at+20:])}, {5, 0}} {
		cur := frame.End{Name: frame.Name{Number: c.number - 1, Sum: c.chain}, Offset: int64(at)}
		fr, _, _ := encodeFrame(manifestIdentity(testStore.UUID, 1), nil, cur, frame.Edit, &layout.Edit{LastVersion: 50})
		put(t, fsys, path, append(slices.Clone(a[:at]), fr...))
		if _, err := Open(o); !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("frame %d with chain %d: %v", c.number, c.chain, err)
		}
	}
}

// TestEitherSlotLeadsToTheNewestState damages each slot after a switch of manifests.
func TestEitherSlotLeadsToTheNewestState(t *testing.T) {
	fsys := vfs.NewMem()
	o := Options{Keys: testKeys, FS: fsys, Dir: "db", FileBytes: 3000}
	l := mustCreate(t, o)
	for n := range entry.Version(100) {
		mustAppend(t, l, &layout.Edit{LastVersion: n + 1})
		whole := get(t, fsys, "db/SUPER")
		for slot := range 2 {
			p := slices.Clone(whole)
			p[slot*slotSize+40] ^= 1
			put(t, fsys, "db/SUPER", p)
			ro := o
			ro.ReadOnly = true
			r, err := Open(ro)
			if err != nil || r.Layout().LastVersion() != n+1 {
				t.Fatalf("version %d, slot %d damaged: %v", n+1, slot, err)
			}
		}
		put(t, fsys, "db/SUPER", whole)
	}
	if l.Super().Manifest < 2 {
		t.Error("the manifest was never switched")
	}
	mustClose(t, l)
}

func TestDamagedSuperIsMended(t *testing.T) {
	fsys, o, want, _ := filled(t, true)
	whole := get(t, fsys, "db/SUPER")
	for _, at := range []int{3, slotSize + 3} {
		p := slices.Clone(whole)
		p[at] ^= 4
		put(t, fsys, "db/SUPER", p)
		l, err := Open(o)
		if err != nil || !l.Recovered().SuperMended || text(l.Layout()) != text(want) {
			t.Fatalf("slot at %d: %v", at, err)
		}
		mustClose(t, l)
		super, err := readSuper(fsys, "db")
		if super.decryptWith(storeKey(testKeys.ring())) != nil || !super.isSettled() || err != nil {
			t.Errorf("slot at %d was not mended: %v", at, err)
		}
	}
	p := slices.Clone(whole)
	p[100] ^= 1
	p[slotSize+100] ^= 1
	put(t, fsys, "db/SUPER", p)
	var c *errs.Corruption
	if _, err := Open(o); !errors.As(err, &c) || c.File != "SUPER" {
		t.Errorf("both slots damaged: %v", err)
	}
}

func TestOtherFormats(t *testing.T) {
	for name, change := range map[string]func(*Super){
		"format 9.3": func(s *Super) { s.Major, s.Minor = 9, 3 },
		"format 1.0": func(s *Super) { s.Major, s.Minor = 1, 0 },
		"0x20":       func(s *Super) { s.Required = 0x20 },
	} {
		fsys, o, _, _ := filled(t, true)
		s, err := ReadSuper(fsys, "db")
		if err != nil {
			t.Fatal(err)
		}
		change(&s)
		put(t, fsys, "db/SUPER", append(plainSlot(&s, 0), plainSlot(&s, slotSize)...))
		if _, err := Open(o); !errors.Is(err, errs.ErrFormat) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fsys, o, want, _ := filled(t, true)
	s, err := ReadSuper(fsys, "db")
	if err != nil {
		t.Fatal(err)
	}
	s.Minor, s.Optional = 9, 1<<63
	put(t, fsys, "db/SUPER", append(plainSlot(&s, 0), plainSlot(&s, slotSize)...))
	l, err := Open(o)
	if err != nil || text(l.Layout()) != text(want) {
		t.Fatalf("later minor: %v", err)
	}
	mustClose(t, l)
	if s, err = ReadSuper(fsys, "db"); err != nil || s.Minor != 9 || s.Optional != 1<<63 {
		t.Errorf("later minor was not kept: %+v, %v", s, err)
	}
}

func TestDirectoriesThatAreNotTaken(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string // in the directory, or in another for values
		want  error
	}{
		{"another program's", []string{"db/KEYREGISTRY", "db/000001.vlog"}, errs.ErrForeign},
		{"another program's, with names like ours", []string{"db/CURRENT", "db/MANIFEST-000001", "db/000002.log"}, errs.ErrForeign},
		{"another program's SUPER", []string{"db/SUPER"}, errs.ErrForeign},
		{"runs", []string{"db/000004.run"}, errs.ErrCorrupt},
		{"journal", []string{"db/000004.log"}, errs.ErrCorrupt},
		{"values elsewhere", []string{"values/000004.val"}, errs.ErrCorrupt},
		{"later manifest", []string{"db/MANIFEST-000002"}, errs.ErrCorrupt},
		{"long manifest", []string{"db/MANIFEST-000001"}, errs.ErrCorrupt},
	} {
		fsys := vfs.NewMem()
		if err := errors.Join(fsys.MkdirAll("db"), fsys.MkdirAll("values")); err != nil {
			t.Fatal(err)
		}
		for _, path := range c.files {
			put(t, fsys, path, bytes.Repeat([]byte("text"), 1000))
		}
		o := Options{Keys: testKeys, FS: fsys, Dir: "db", ValueDir: "values"}
		if _, err := makeStore(o, testStore); !errors.Is(err, c.want) {
			t.Errorf("%s: create: %v", c.name, err)
		}
		if _, err := Open(o); err == nil || c.want == errs.ErrCorrupt && !errors.Is(err, c.want) {
			t.Errorf("%s: open: %v", c.name, err)
		}
		for _, path := range c.files {
			if len(get(t, fsys, path)) != 4000 {
				t.Errorf("%s: %s was touched", c.name, path)
			}
		}
	}
	short := vfs.NewMem()
	if err := short.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	put(t, short, "db/MANIFEST-000001", []byte("MANIFEST-000007\n"))
	if _, err := makeStore(Options{Keys: testKeys, FS: short, Dir: "db"}, testStore); !errors.Is(err, errs.ErrCorrupt) || len(get(t, short, "db/MANIFEST-000001")) != 16 {
		t.Errorf("another program's short manifest: %v", err)
	}
	fsys, o, _, _ := filled(t, true)
	if err := fsys.Remove("db/MANIFEST-000001"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("lost manifest: %v", err)
	}
	if _, err := makeStore(o, testStore); !errors.Is(err, errs.ErrExist) {
		t.Errorf("create over a store that lost its manifest: %v", err)
	}
	fsys, o, _, _ = filled(t, true)
	if err := fsys.Remove("db/SUPER"); err != nil {
		t.Fatal(err)
	}
	if _, err := makeStore(o, testStore); !errors.Is(err, errs.ErrCorrupt) {
		t.Errorf("create over a store that lost SUPER: %v", err)
	}
}

func TestManifestOfAnotherStore(t *testing.T) {
	fsys, o, _, _ := filled(t, true)
	other := vfs.NewMem()
	c := testStore
	c.UUID[0]++
	l, err := makeStore(Options{Keys: testKeys, FS: other, Dir: "db"}, c)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	put(t, fsys, "db/MANIFEST-000001", get(t, other, "db/MANIFEST-000001"))
	if _, err := Open(o); !errors.Is(err, errs.ErrCorrupt) || !strings.Contains(err.Error(), "another store") {
		t.Errorf("swapped manifest: %v", err)
	}
	put(t, fsys, "db/MANIFEST-000009", get(t, other, "db/MANIFEST-000001"))
	fsys, o, _, _ = filled(t, true)
	foreign := get(t, other, "db/MANIFEST-000001")
	put(t, fsys, "db/MANIFEST-000009", foreign)
	put(t, fsys, "db/MANIFEST-000002", nil)
	if l, err = Open(o); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	names, _ := fsys.List("db")
	if !slices.Equal(names, []string{"MANIFEST-000001", "MANIFEST-000009", "SUPER"}) {
		t.Errorf("files after open: %v; want the empty one gone, the foreign one there", names)
	}
}

// crashScript creates a store and appends edits, with a new manifest between; it
// returns the layouts that were acknowledged, ever newer.
func crashScript(o Options, acknowledged func(*layout.Layout)) error {
	l, err := Open(o)
	if errors.Is(err, errs.ErrNotExist) {
		l, err = makeStore(o, testStore)
	}
	if err != nil {
		return err
	}
	acknowledged(l.Layout())
	for range 6 {
		n := l.Layout().NextFile()
		next, err := l.Append(&layout.Edit{
			AddSegments: []layout.Segment{{Num: n, Kind: filename.Value, FileBytes: 1 << 20, Records: 1}},
			LastVersion: entry.Version(n), Unknown: []layout.TLV{{Tag: 999, Value: make([]byte, 700)}},
		})
		if err != nil {
			return errors.Join(err, l.Close())
		}
		acknowledged(next)
	}
	return l.Close()
}

var crashModes = []vfs.CrashMode{vfs.Lost, vfs.All, vfs.Prefix, vfs.Chaos}

// TestCrashAtEveryCall crashes the log at each call, and some of the recoveries, drawn, at each of
// theirs; with -every all.
func TestCrashAtEveryCall(t *testing.T) {
	states, deep := 0, 5
	if *every {
		deep = 1
	}
	first := draw.Rand(t).IntN(deep)
	mem := vfs.NewMem()
	var acked int
	step := &stepFS{FS: mem}
	step.after = func(int) error {
		for _, mode := range crashModes {
			seeds := uint64(1)
			if mode == vfs.Prefix || mode == vfs.Chaos {
				seeds = 3
			}
			for seed := range seeds {
				states++
				clone := mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: seed})
				checkAfterCrash(t, clone, acked, acked+1, fmt.Sprintf("call %d, mode %v, seed %d", step.calls, mode, seed), states%deep == first)
			}
		}
		return nil
	}
	o := Options{Keys: testKeys, FS: step, Dir: "db", FileBytes: 2000}
	err := crashScript(o, func(l *layout.Layout) { acked = len(l.Segments()) })
	if err != nil || acked != 6 {
		t.Fatalf("the script ended at %d: %v", acked, err)
	}
	t.Logf("%d calls, %d crash states", step.calls, states)
}

// checkAfterCrash opens what a crash left; with deep it crashes that at each call too.
func checkAfterCrash(t *testing.T, mem *vfs.Mem, least, most int, what string, deep bool) {
	t.Helper()
	step := &stepFS{FS: mem}
	if deep {
		step.after = func(n int) error {
			for _, mode := range crashModes {
				checkAfterCrash(t, mem.CrashClone(vfs.CrashOptions{Mode: mode, Seed: uint64(n)}), least, most,
					fmt.Sprintf("%s, call %d of recovery, mode %v", what, n, mode), false)
			}
			return nil
		}
	}
	o := Options{Keys: testKeys, FS: step, Dir: "db", FileBytes: 2000}
	l, err := Open(o)
	if errors.Is(err, errs.ErrNotExist) && least == 0 {
		l, err = makeStore(o, testStore)
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if n := len(l.Layout().Segments()); n < least || n > most || l.Layout().LastVersion() != entry.Version(n) {
		t.Fatalf("%s: %d edits are there, want %d to %d", what, n, least, most)
	}
	step.after = nil
	// After this Open, files may have been removed because of this state: it must be durable.
	seen := len(l.Layout().Segments())
	lost, err := Open(Options{Keys: testKeys, FS: mem.CrashClone(vfs.CrashOptions{}), Dir: "db", ReadOnly: true})
	if err != nil || len(lost.Layout().Segments()) != seen {
		t.Fatalf("%s: after a second crash, %d edits that were seen are not there: %v", what, seen, err)
	}
	if _, err := l.Append(&layout.Edit{LastVersion: 1000}); err != nil {
		t.Fatalf("%s: append: %v", what, err)
	}
	lost, err = Open(Options{Keys: testKeys, FS: mem.CrashClone(vfs.CrashOptions{}), Dir: "db", ReadOnly: true})
	if err != nil || lost.Layout().LastVersion() != 1000 {
		t.Fatalf("%s: an acknowledged edit is lost: %v", what, err)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("%s: close: %v", what, err)
	}
	if l, err = Open(o); err != nil || l.Layout().LastVersion() != 1000 {
		t.Fatalf("%s: second open: %v", what, err)
	}
	mustClose(t, l)
}

func TestFailureOfEveryCall(t *testing.T) {
	failure := errors.New("injected")
	for _, sticky := range []bool{false, true} {
		for n := 1; ; n++ {
			mem := vfs.NewMem()
			step := &stepFS{FS: mem}
			failed := false
			step.before = func(call int) error {
				if call == n || sticky && call > n {
					failed = true
					return failure
				}
				return nil
			}
			acked := -1
			err := crashScript(Options{Keys: testKeys, FS: step, Dir: "db", FileBytes: 2000}, func(l *layout.Layout) { acked = len(l.Segments()) })
			if err != nil && !errors.Is(err, failure) {
				t.Fatalf("call %d fails: %v", n, err)
			}
			if !failed {
				if err != nil || acked != 6 {
					t.Fatalf("no call failed, and the script ended at %d: %v", acked, err)
				}
				break
			}
			checkAfterCrash(t, mem, max(acked, 0), acked+1, fmt.Sprintf("call %d failed, sticky %v", n, sticky), false)
		}
	}
}

func TestFailStop(t *testing.T) {
	step := &stepFS{FS: vfs.NewMem()}
	o := Options{Keys: testKeys, FS: step, Dir: "db"}
	l := mustCreate(t, o)
	disk := errors.New("the disk is gone")
	step.before = func(int) error { return disk }
	_, err := l.Append(&layout.Edit{LastVersion: 1})
	step.before = nil
	for range 2 {
		if !errors.Is(err, errs.ErrStopped) || !errors.Is(err, disk) {
			t.Errorf("append: %v", err)
		}
		_, err = l.Append(&layout.Edit{LastVersion: 2})
	}
	if l.Layout().LastVersion() != 0 {
		t.Error("the failed edit is in the layout")
	}
	mustClose(t, l)
}

func TestReadOnlyWritesNothing(t *testing.T) {
	_, o, want, _ := filled(t, false)
	step := &stepFS{FS: o.FS, before: func(int) error { return errors.New("written") }}
	ro := Options{Keys: testKeys, FS: step, Dir: "db", ReadOnly: true}
	l, err := Open(ro)
	if err != nil || text(l.Layout()) != text(want) {
		t.Fatal(err)
	}
	if _, err := l.Append(&layout.Edit{}); !errors.Is(err, errs.ErrReadOnly) {
		t.Errorf("append: %v", err)
	}
	mustClose(t, l)
	if _, err := CreateStore(Options{Keys: testKeys, FS: step, Dir: "other", ReadOnly: true}, testStore); !errors.Is(err, errs.ErrReadOnly) {
		t.Errorf("create: %v", err)
	}
}

// FuzzLog changes bytes of a manifest and mends the checksums, so that the
// decoders behind them are reached.
func FuzzLog(f *testing.F) {
	id := manifestIdentity(testStore.UUID, 1)
	build := func(payloads [][]byte) []byte {
		p := encodeFileHeader(testStore.UUID, 1, frame.Name{}, fileVersion)
		at := firstPlace(1, p)
		for i, payload := range payloads {
			kind := frame.Edit
			if i == 0 {
				kind = frame.Snapshot
			}
			fr := append(make([]byte, frame.HeaderSize), payload...)
			fr = append(fr, make([]byte, -len(fr)&7)...)
			finishFrame(fr, id, &at, &frame.Header{Kind: kind, Chain: at.Sum, Number: at.Number + 1})
			p = append(p, fr...)
		}
		return p
	}
	h := newHistory(9)
	a, b := AppendEdit(nil, h.edit()), AppendEdit(nil, h.edit())
	corpus.Add(f, []byte{}, a, b, uint32(0), byte(0))
	corpus.Add(f, AppendEdit(nil, layout.New().Snapshot()), b, a, uint32(100), byte(3))
	f.Fuzz(func(t *testing.T, first, second, third []byte, at uint32, flip byte) {
		p := build([][]byte{first, second, third})
		if flip != 0 {
			p[at%uint32(len(p))] ^= flip
		}
		mem := vfs.NewMem()
		if err := mem.MkdirAll("db"); err != nil {
			t.Fatal(err)
		}
		put(t, mem, "db/SUPER", superOf())
		put(t, mem, "db/MANIFEST-000001", p)
		o := Options{Keys: testKeys, FS: mem, Dir: "db"}
		l, err := Open(o)
		if err != nil {
			if !errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrFormat) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		want := text(l.Layout())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err = Open(o); err != nil || text(l.Layout()) != want {
			t.Fatalf("second open: %v", err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	l, err := makeStore(Options{Keys: testKeys, FS: vfs.NewMem(), Dir: "db"}, testStore)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := &layout.Edit{LastVersion: entry.Version(i + 1), JournalEnds: []frame.End{{Name: frame.Name{File: 9, Number: uint64(i), Sum: rng.Uint32()}, Offset: int64(i)}}}
		if _, err := l.Append(e); err != nil {
			b.Fatal(err)
		}
	}
}

// text shows a layout: layouts that are alike have the same text.
func text(l *layout.Layout) string { return fmt.Sprintf("%+v", *l.Snapshot()) }
