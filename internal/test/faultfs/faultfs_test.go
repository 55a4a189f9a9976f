package faultfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock/vfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// work does one operation of each kind and returns the errors by kind.
func work(f vfs.FS) map[Kind][]error {
	got := map[Kind][]error{}
	note := func(k Kind, err error) bool {
		got[k] = append(got[k], err)
		return err == nil
	}
	note(MkdirAll, f.MkdirAll("d"))
	file, err := f.Create("d/a.log")
	if note(Create, err) {
		_, err = file.WriteAt([]byte("0123"), 0)
		note(Write, err)
		_, err = file.WriteVec([][]byte{[]byte("4567"), []byte("89")}, 4)
		note(Write, err)
		note(Truncate, file.Truncate(10))
		file.StartWriteback(0, 10)
		note(SyncData, file.SyncData())
		note(Sync, file.Sync())
		_, err = file.Size()
		note(Size, err)
		note(Close, file.Close())
	}
	note(SyncDir, f.SyncDir("d"))
	if file, err = f.Open("d/a.log"); note(Open, err) {
		_, err = file.ReadAt(make([]byte, 4), 0)
		note(Read, err)
		file.StartRead(0, 10)
		_, err = file.Map(4)
		note(Map, err)
		note(Close, file.Close())
	}
	if file, err = f.OpenReadWrite("d/a.log"); note(OpenReadWrite, err) {
		note(Close, file.Close())
	}
	_, err = f.List("d")
	note(List, err)
	_, err = f.Stat("d/a.log")
	note(Stat, err)
	_, err = f.Free("d")
	note(Free, err)
	lock, err := f.Lock("d/LOCK", false)
	if note(Lock, err) {
		_ = lock.Close()
	}
	note(Link, f.Link("d/a.log", "d/c.log"))
	note(Clone, f.Clone("d/a.log", "d/e.log"))
	note(Rename, f.Rename("d/a.log", "d/b.log"))
	if held, err := f.OpenDirs("d"); note(OpenDir, err) {
		note(Remove, held.Remove("d/b.log"))
		_ = held.Close()
	}
	return got
}

func TestCounts(t *testing.T) {
	var ops []string
	f := New(vfs.NewMem(), Options{Before: func(o Op) { ops = append(ops, o.String()) }})
	for k, failures := range work(f) {
		for _, err := range failures {
			if err != nil {
				t.Errorf("%v without a fault: %v", k, err)
			}
		}
	}
	want := `1 mkdir d
2 create a.log
3 write a.log at 0, 4 bytes
4 write a.log at 4, 6 bytes
5 truncate a.log to 10
6 writeback a.log at 0, 10 bytes
7 sync-data a.log
8 sync a.log
9 size a.log
10 close a.log
11 sync-dir d
12 open a.log
13 read a.log at 0, 4 bytes
14 read-start a.log at 0, 10 bytes
15 map a.log to 4
16 close a.log
17 open-read-write a.log
18 close a.log
19 list d
20 stat a.log
21 free d
22 lock LOCK
23 link a.log to c.log
24 clone a.log to e.log
25 rename a.log to b.log
26 open-dir d
27 remove b.log`
	if got := strings.Join(ops, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, tc := range []struct {
		kinds Kind
		part  string
		want  int
	}{{Any, "", 27}, {Write, "", 2}, {Close, ".log", 3}, {Syncs, "a.log", 2}, {Any, "LOCK", 1}, {Write, "b", 0}} {
		if got := f.Count(tc.kinds, tc.part); got != tc.want {
			t.Errorf("%d operations %v on %q, want %d", got, tc.kinds, tc.part, tc.want)
		}
	}
}

// TestEveryOperationFails makes each operation of the work fail once, then it and all
// that follow.
func TestEveryOperationFails(t *testing.T) {
	for _, times := range []int{1, Always} {
		for n := 1; ; n++ {
			var hit Op
			count := 0
			f := New(vfs.NewMem(), Options{Before: func(o Op) {
				if count++; count == n {
					hit = o
				}
			}})
			f.Inject(Fault{Nth: n, Times: times})
			got := work(f)
			if hit.N == 0 {
				if n != 28 || f.Struck() != 0 {
					t.Errorf("no operation %d, and %d struck", n, f.Struck())
				}
				break
			}
			if want := count - n + 1; times == 1 && f.Struck() != 1 || times == Always && f.Struck() != want {
				t.Errorf("operation %d: %d struck", n, f.Struck())
			}
			var path *fs.PathError
			if hit.Kind&(Writeback|ReadStart) == 0 && !slices.ContainsFunc(got[hit.Kind], func(err error) bool {
				return errors.Is(err, ErrIO) && errors.As(err, &path) && path.Path == hit.Path
			}) {
				t.Errorf("%v didn't fail: %v", hit, got[hit.Kind])
			}
		}
	}
}

func TestWhichFail(t *testing.T) {
	for _, tc := range []struct {
		fault Fault
		want  string // by write: . good, x failed
	}{
		{Fault{Kinds: Write}, "x....."},
		{Fault{Kinds: Write, Nth: 3}, "..x..."},
		{Fault{Kinds: Write, Nth: 2, Times: 3}, ".xxx.."},
		{Fault{Kinds: Write, Nth: 4, Times: Always}, "...xxx"},
		{Fault{Kinds: Write, Path: ".log"}, "x....."},
		{Fault{Kinds: Write, Path: ".run"}, "......"},
		{Fault{Kinds: Read | Sync}, "......"},
	} {
		f := New(vfs.NewMem(), Options{})
		file, err := f.Create("a.log")
		must(t, err)
		f.Inject(tc.fault)
		got := ""
		for range 6 {
			if _, err := file.WriteAt([]byte("x"), 0); err == nil {
				got += "."
			} else {
				got += "x"
			}
		}
		if got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.fault, got, tc.want)
		}
		f.Heal()
		if _, err := file.WriteAt([]byte("x"), 0); err != nil {
			t.Errorf("healed: %v", err)
		}
	}
}

func TestErrorsAndShortWrites(t *testing.T) {
	f := New(vfs.NewMem(), Options{})
	file, err := f.Create("a")
	must(t, err)
	f.Inject(Fault{Kinds: Write, Err: ErrNoSpace, Short: true}, Fault{Kinds: Opens, Err: ErrFiles})
	n, err := file.WriteVec([][]byte{[]byte("ab"), []byte("cdef")}, 0)
	if n != 3 || !vfs.IsNoSpace(err) {
		t.Errorf("got %d, %v", n, err)
	}
	p := make([]byte, 4)
	if n, err := file.ReadAt(p, 0); n != 3 || err != io.EOF || string(p[:3]) != "abc" {
		t.Errorf("after the short write: %q, %v", p[:n], err)
	}
	if _, err := f.Open("a"); !errors.Is(err, ErrFiles) {
		t.Errorf("got %v", err)
	}
}

func TestFailedSyncLosesData(t *testing.T) {
	mem := vfs.NewMem()
	f := New(mem, Options{})
	file, err := f.Create("a")
	must(t, err)
	must(t, f.SyncDir("."))
	_, err = file.WriteAt([]byte("text"), 0)
	must(t, err)
	f.Inject(Fault{Kinds: Syncs, Times: 2})
	if err := file.SyncData(); !errors.Is(err, ErrIO) {
		t.Errorf("got %v", err)
	}
	_, err = f.Create("b")
	must(t, err)
	if err := f.SyncDir("."); !errors.Is(err, ErrIO) {
		t.Errorf("got %v", err)
	}
	must(t, file.SyncData())
	must(t, f.SyncDir("."))
	after := mem.CrashClone(vfs.CrashOptions{Mode: vfs.Lost})
	if i, err := after.Stat("a"); err != nil || i.Size != 0 {
		t.Errorf("the file has %d bytes, %v: a failed sync wrote", i.Size, err)
	}
	if _, err := after.Stat("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v: a failed sync of the directory kept a name", err)
	}
}

func TestRot(t *testing.T) {
	f := New(vfs.NewMem(), Options{})
	file, err := f.Create("a.run")
	must(t, err)
	_, err = file.WriteAt([]byte("0123456789"), 0)
	must(t, err)
	must(t, file.Close())
	file, err = f.Open("a.run")
	must(t, err)
	f.Rot(".log", Flip(0, 0xff))
	f.Rot(".run", Flip(2, 1))
	f.Rot(".run", Replace(4, []byte("abc")))
	for _, tc := range []struct {
		off  int64
		want string
	}{{0, "0133abc789"}, {2, "33ab"}, {3, "3a"}, {5, "bc7"}, {6, "c"}, {7, "789"}} {
		p := make([]byte, len(tc.want))
		if _, err := file.ReadAt(p, tc.off); err != nil || string(p) != tc.want {
			t.Errorf("at %d: got %q, %v, want %q", tc.off, p, err, tc.want)
		}
	}
	m, err := file.Map(6)
	must(t, err)
	if string(m.Data()) != "0133ab" {
		t.Errorf("mapping: %q", m.Data())
	}
	f.Heal()
	m, err = file.Map(10)
	must(t, err)
	if string(m.Data()) != "0123456789" {
		t.Errorf("mapping of the healed file: %q", m.Data())
	}
}

// TestCrashBeforeEachOperation shows how crash tests use the package.
func TestCrashBeforeEachOperation(t *testing.T) {
	mem := vfs.NewMem()
	var crashes []*vfs.Mem
	f := New(mem, Options{Before: func(Op) {
		crashes = append(crashes, mem.CrashClone(vfs.CrashOptions{Mode: vfs.All}))
	}})
	for i := range 3 {
		_, err := f.Create(fmt.Sprint(i))
		must(t, err)
	}
	for i, c := range crashes {
		if names, err := c.List("/"); err != nil || len(names) != i {
			t.Errorf("crash %d: files %v, %v", i, names, err)
		}
	}
	if len(crashes) != 3 {
		t.Errorf("%d crashes", len(crashes))
	}
}

func TestTogether(t *testing.T) {
	f := New(vfs.NewMem(), Options{})
	f.Inject(Fault{Kinds: Write, Nth: 50, Times: 10})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			file, err := f.Create(fmt.Sprint(g))
			if err != nil {
				t.Error(err)
				return
			}
			for range 100 {
				_, _ = file.WriteAt([]byte("x"), 0)
			}
		})
	}
	wg.Wait()
	if f.Struck() != 10 || f.Count(Write, "") != 400 {
		t.Errorf("%d struck of %d", f.Struck(), f.Count(Write, ""))
	}
}
