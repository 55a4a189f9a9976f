package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/test/kit/draw"
)

const seeds = 300 // crashes that are tried where any of several may happen

// outcomes crashes m in a mode with many seeds and returns which results of show
// there were, sorted.
func outcomes(m *Mem, mode CrashMode, show func(m *Mem) string) []string {
	seen := map[string]bool{}
	for seed := range uint64(seeds) {
		seen[show(m.CrashClone(CrashOptions{Mode: mode, Seed: seed}))] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func is(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// files shows all files of the root with their content.
func files(t *testing.T) func(m *Mem) string {
	return func(m *Mem) string {
		names, err := m.List("/")
		must(t, err)
		var s []string
		for _, name := range names {
			s = append(s, name+"="+text(t, m, name))
		}
		return strings.Join(s, " ")
	}
}

func TestCrashOfUnsyncedCreate(t *testing.T) {
	m := NewMem()
	put(t, m, "a", "text")
	is(t, "lost", outcomes(m, Lost, files(t)), "")
	is(t, "all", outcomes(m, All, files(t)), "a=text")
	is(t, "prefix", outcomes(m, Prefix, files(t)), "", "a=", "a=text")
	is(t, "chaos", outcomes(m, Chaos, files(t)), "", "a=", "a=text", "a=\x00\x00\x00\x00")

	must(t, m.SyncDir("/"))
	is(t, "lost, with the name synced", outcomes(m, Lost, files(t)), "a=")
	file, err := m.Open("a")
	must(t, err)
	must(t, file.Sync())
	for _, mode := range []CrashMode{Lost, All, Prefix, Chaos} {
		is(t, fmt.Sprintf("mode %d, all synced", mode), outcomes(m, mode, files(t)), "a=text")
	}
}

func TestCrashOfSyncedFileWithUnsyncedName(t *testing.T) {
	m := NewMem()
	file := create(t, m, "a", "text")
	must(t, file.SyncData())
	is(t, "lost", outcomes(m, Lost, files(t)), "")
	is(t, "chaos", outcomes(m, Chaos, files(t)), "", "a=text")
}

func TestCrashOfUnsyncedRename(t *testing.T) {
	m := NewMem()
	must(t, create(t, m, "a", "A").Sync())
	must(t, m.SyncDir("/"))
	must(t, m.Rename("a", "b"))
	is(t, "lost", outcomes(m, Lost, files(t)), "a=A")
	is(t, "all", outcomes(m, All, files(t)), "b=A")
	is(t, "prefix", outcomes(m, Prefix, files(t)), "a=A", "b=A")
	is(t, "chaos", outcomes(m, Chaos, files(t)), "", "a=A", "b=A", "a=A b=A")
	must(t, m.SyncDir("/"))
	is(t, "synced", outcomes(m, Chaos, files(t)), "b=A")
}

func TestCrashOfUnsyncedReplace(t *testing.T) {
	m := NewMem()
	must(t, create(t, m, "a", "old").Sync())
	must(t, create(t, m, "tmp", "new").Sync())
	must(t, m.SyncDir("/"))
	must(t, m.Remove("a"))
	must(t, m.Rename("tmp", "a"))
	is(t, "chaos", outcomes(m, Chaos, files(t)), "a=old tmp=new", "a=new tmp=new", "tmp=new", "a=old", "a=new", "")
}

func TestCrashOfUnsyncedRemove(t *testing.T) {
	m := NewMem()
	must(t, create(t, m, "a", "A").Sync())
	must(t, m.SyncDir("/"))
	must(t, m.Remove("a"))
	put(t, m, "a", "B")
	is(t, "lost", outcomes(m, Lost, files(t)), "a=A")
	is(t, "prefix", outcomes(m, Prefix, files(t)), "", "a=A", "a=", "a=B")
}

func TestCrashOfUnsyncedDirectory(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("x/y"))
	must(t, create(t, m, "x/y/a", "A").Sync())
	must(t, m.SyncDir("x/y"))
	must(t, m.SyncDir("x"))
	show := func(m *Mem) string { return text(t, m, "x/y/a") }
	is(t, "root not synced", outcomes(m, Lost, show), "absent")
	must(t, m.SyncDir(""))
	is(t, "all synced", outcomes(m, Lost, show), "A")
}

func TestCloneIsIndependent(t *testing.T) {
	for _, mode := range []CrashMode{Lost, All, Prefix, Chaos} {
		m := NewMem()
		file := create(t, m, "a", strings.Repeat("A", 10_000))
		must(t, file.Sync())
		must(t, m.SyncDir("/"))
		lock, err := m.Lock("LOCK", false)
		must(t, err)
		defer lock.Close()

		clone := m.CrashClone(CrashOptions{Mode: mode})
		in, err := clone.OpenReadWrite("a")
		must(t, err)
		_, err = in.WriteAt([]byte("B"), 5000)
		must(t, err)
		must(t, in.Truncate(6000))
		must(t, in.Sync())
		put(t, clone, "b", "")
		if got := text(t, m, "a"); got != strings.Repeat("A", 10_000) || text(t, m, "b") != "absent" {
			t.Errorf("mode %d: the original sees what the clone wrote", mode)
		}
		_, err = file.WriteAt([]byte("C"), 0)
		must(t, err)
		if got := text(t, clone, "a"); got != strings.Repeat("A", 5000)+"B"+strings.Repeat("A", 999) {
			t.Errorf("mode %d: the clone sees what the original wrote", mode)
		}
		again, err := clone.Lock("LOCK", false)
		if err != nil {
			t.Fatalf("mode %d: the lock survived: %v", mode, err)
		}
		must(t, again.Close())
	}
}

// TestProcessCrashThenPowerLoss: what a killed process wrote can be read, and
// still be lost.
func TestProcessCrashThenPowerLoss(t *testing.T) {
	m := NewMem()
	file := create(t, m, "a", "old")
	must(t, file.Sync())
	must(t, m.SyncDir("/"))
	_, err := file.WriteAt([]byte("new"), 0)
	must(t, err)
	second := m.CrashClone(CrashOptions{Mode: All})
	if got := text(t, second, "a"); got != "new" {
		t.Errorf("after the first crash: %s", got)
	}
	is(t, "second crash", outcomes(second, Lost, files(t)), "a=old")
	again, err := second.Open("a")
	must(t, err)
	must(t, again.Sync())
	is(t, "second crash after a sync", outcomes(second, Lost, files(t)), "a=new")
}

func TestPrefixKeepsTheOrderOfAllFiles(t *testing.T) {
	m := NewMem()
	a, b := create(t, m, "a", ""), create(t, m, "b", "")
	must(t, m.SyncDir("/"))
	for i := range 20 { // each number is written to a, then to b
		for _, f := range []File{a, b} {
			_, err := f.WriteAt([]byte{byte('a' + i)}, int64(i))
			must(t, err)
		}
	}
	got := outcomes(m, Prefix, func(m *Mem) string {
		x, y := text(t, m, "a"), text(t, m, "b")
		if len(x) != len(y) && len(x) != len(y)+1 || strings.ContainsRune(x+y, 0) {
			t.Errorf("a hole: %q, %q", x, y)
		}
		return x + y
	})
	if len(got) != 41 {
		t.Errorf("%d moments, want 41", len(got))
	}
}

// TestChaosKeepsAnySubset writes blocks and watches which of them a crash leaves.
func TestChaosKeepsAnySubset(t *testing.T) {
	const blocks = 16
	m := NewMem()
	file := create(t, m, "a", strings.Repeat("o", blocks*chunkSize))
	must(t, file.Sync())
	must(t, m.SyncDir("/"))
	for i := range blocks - 1 { // the last one isn't written
		_, err := file.WriteAt(bytes.Repeat([]byte("n"), chunkSize), int64(i*chunkSize))
		must(t, err)
	}
	kept, torn, middle := 0, 0, 0
	for seed := range uint64(seeds) {
		got := text(t, m.CrashClone(CrashOptions{Mode: Chaos, Seed: seed}), "a")
		if again := text(t, m.CrashClone(CrashOptions{Mode: Chaos, Seed: seed}), "a"); again != got {
			t.Fatalf("seed %d makes different crashes", seed)
		}
		k := 0
		for i := range blocks {
			block := got[i*chunkSize : (i+1)*chunkSize]
			n := strings.Count(block, "n")
			for s := range chunkSize / sectorSize {
				if c := strings.Count(block[s*sectorSize:(s+1)*sectorSize], "n"); c != 0 && c != sectorSize {
					t.Fatalf("seed %d: a torn sector", seed)
				}
			}
			switch {
			case i == blocks-1 && n > 0:
				t.Fatalf("seed %d: wrote where nobody wrote", seed)
			case n == chunkSize:
				k++
			case n > 0:
				torn++
			}
		}
		kept += k
		if k > 0 && k < blocks-1 {
			middle++
		}
	}
	all := seeds * (blocks - 1)
	t.Logf("of %d blocks %d kept, %d torn; a mixture in %d of %d crashes", all, kept, torn, middle, seeds)
	if kept < all/4 || kept > all*3/4 || torn < all/20 || torn > all/5 || middle < seeds/2 {
		t.Error("not much of a choice")
	}
}

func TestFailedSyncLosesData(t *testing.T) {
	m := NewMem()
	file := create(t, m, "a", "old old old")
	must(t, file.Sync())
	must(t, m.SyncDir("/"))
	_, err := file.WriteAt([]byte("new"), 4)
	must(t, err)
	_, err = file.WriteAt([]byte(strings.Repeat("x", 5000)), 5000)
	must(t, err)
	file.(interface{ DropUnsynced() }).DropUnsynced()
	if got := text(t, m, "a"); len(got) != 10_000 || got[:11] != "old new old" {
		t.Errorf("what was dropped can't be read: %q", got)
	}
	must(t, file.Sync())
	is(t, "crash after a sync that did nothing", outcomes(m, Chaos, files(t)), "a=old old old")
	_, err = file.WriteAt([]byte("y"), 10_000)
	must(t, err)
	must(t, file.Sync())
	got := text(t, m.CrashClone(CrashOptions{}), "a")
	if len(got) != 10_001 || strings.Count(got[:8192], "x") != 0 || strings.Count(got, "x") != 10_000-8192 {
		t.Errorf("want a hole up to the block that was written again, got %d bytes, %d of them x", len(got), strings.Count(got, "x"))
	}

	put(t, m, "b", "")
	m.DropUnsynced("/")
	must(t, m.SyncDir("/"))
	if got := text(t, m.CrashClone(CrashOptions{}), "b"); got != "absent" {
		t.Errorf("a name whose sync failed is there")
	}
}

func TestMemMapping(t *testing.T) {
	m := NewMem()
	want := strings.Repeat("0123456789", 1000)
	w := create(t, m, "a", want)
	if _, err := w.Map(100); err == nil {
		t.Error("mapped a file that is open for writing")
	}
	must(t, w.Sync())
	must(t, w.Close())
	r, err := m.Open("a")
	must(t, err)
	if _, err := r.Map(10_001); err == nil {
		t.Error("mapped more than the file")
	}
	m1, err := r.Map(10_000)
	must(t, err)
	m2, err := r.Map(5000)
	must(t, err)
	if &m1.Data()[0] != &m2.Data()[0] {
		t.Error("two mappings, two copies")
	}
	w, err = m.OpenReadWrite("a")
	must(t, err)
	_, err = w.WriteAt([]byte("new"), 0)
	must(t, err)
	must(t, w.Truncate(3))
	must(t, w.Sync())
	must(t, w.Close())
	if want := "new" + strings.Repeat("\x00", 9_997); string(m1.Data()) != want {
		t.Errorf("the mapping after the write: %.10q", m1.Data())
	}
	m3, err := r.Map(3)
	must(t, err)
	if string(m3.Data()) != "new" || text(t, m.CrashClone(CrashOptions{}), "a") != "absent" {
		t.Errorf("after the write: %q", m3.Data())
	}
}

// TestMappingsFollowWrites draws writes, resizes, syncs, mappings and clones of a file. Each
// mapping shows what the file has, and zeros behind its end. No clone follows.
func TestMappingsFollowWrites(t *testing.T) {
	rng := draw.Rand(t)
	m := NewMem()
	must(t, create(t, m, "a", strings.Repeat("x", 3*chunkSize)).Close())
	must(t, m.SyncDir("/"))
	type copied struct {
		m    *Mem
		mode CrashMode
		text string
	}
	var maps []Mapping
	var clones []copied
	now, synced := text(t, m, "a"), ""
	for step := range 2000 {
		switch rng.IntN(6) {
		case 0: // a larger file makes another piece of memory
			r, err := m.Open("a")
			must(t, err)
			mapping, err := r.Map(rng.Int64N(int64(len(now)) + 1))
			must(t, err)
			maps = append(maps, mapping)
			must(t, r.Close())
		case 1:
			if len(maps) > 0 {
				i := rng.IntN(len(maps))
				must(t, maps[i].Close())
				maps = slices.Delete(maps, i, i+1)
			}
		case 2:
			mode := []CrashMode{Lost, All}[rng.IntN(2)]
			c := copied{m.CrashClone(CrashOptions{Mode: mode}), mode, now}
			if mode == Lost {
				c.text = synced
			}
			if clones = append(clones, c); len(clones) > 8 {
				clones = slices.Delete(clones, 0, 1)
			}
		default:
			w, err := m.OpenReadWrite("a")
			must(t, err)
			switch rng.IntN(3) {
			case 0:
				size := rng.IntN(5 * chunkSize)
				must(t, w.Truncate(int64(size)))
				now = (now + strings.Repeat("\x00", 5*chunkSize))[:size]
			case 1:
				must(t, w.Sync())
				synced = now
			case 2:
				off, part := rng.IntN(len(now)+1), strings.Repeat(string('a'+rune(step%26)), 1+rng.IntN(2*chunkSize))
				_, err := w.WriteAt([]byte(part), int64(off))
				must(t, err)
				now = now[:off] + part + now[min(len(now), off+len(part)):]
			}
			must(t, w.Close())
		}
		for _, mapping := range maps {
			n := len(mapping.Data())
			if want := (now + strings.Repeat("\x00", 10*chunkSize))[:n]; string(mapping.Data()) != want {
				t.Fatalf("step %d: a mapping of %d bytes doesn't show the file", step, n)
			}
		}
		for _, c := range clones {
			if synced == "" && c.mode == Lost {
				continue
			}
			if text(t, c.m, "a") != c.text {
				t.Fatalf("step %d: a clone has changed", step)
			}
		}
	}
}

// TestCrashesAgainstModel does random things to a few files and checks each crash
// mode's promise: synced content and names are there, and All is what was seen.
func TestCrashesAgainstModel(t *testing.T) {
	seed := draw.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	m := NewMem()
	synced := map[string]string{} // content of files with durable name, untouched since
	// A crash amid a rename may leave both names, of one file.
	touched := func(name string) {
		maps.DeleteFunc(synced, func(other, _ string) bool { return m.findNode(cleanName(other)) == m.findNode(cleanName(name)) })
	}
	for step := range 600 {
		name := fmt.Sprintf("%c", 'a'+rng.IntN(5))
		file, err := m.OpenReadWrite(name)
		if err != nil {
			file, err = m.Create(name)
			must(t, err)
		}
		switch rng.IntN(7) {
		case 0:
			must(t, m.Remove(name))
			delete(synced, name)
		case 1:
			to := fmt.Sprintf("%c", 'a'+rng.IntN(5))
			if err := m.Rename(name, to); !errors.Is(err, fs.ErrExist) {
				must(t, err)
				delete(synced, name)
			}
		case 2:
			must(t, file.Truncate(int64(rng.IntN(20_000))))
			touched(name)
		case 3, 4:
			_, err := file.WriteAt(bytes.Repeat([]byte{byte(step)}, 1+rng.IntN(9000)), int64(rng.IntN(12_000)))
			must(t, err)
			touched(name)
		default:
			must(t, file.Sync())
			must(t, m.SyncDir("/"))
			synced[name] = text(t, m, name)
		}
		must(t, file.Close())
		now := files(t)(m)
		if got := files(t)(m.CrashClone(CrashOptions{Mode: All})); got != now {
			t.Fatalf("seed %d, step %d: All differs from what was seen", seed, step)
		}
		for _, mode := range []CrashMode{Lost, Prefix, Chaos} {
			clone := m.CrashClone(CrashOptions{Mode: mode, Seed: uint64(step)})
			for name, want := range synced {
				if text(t, clone, name) != want {
					t.Fatalf("seed %d, step %d, mode %d: synced file %s was lost or changed", seed, step, mode, name)
				}
			}
			if got := files(t)(clone.CrashClone(CrashOptions{Mode: Lost})); got != files(t)(clone) {
				t.Fatalf("seed %d, step %d, mode %d: a second crash lost something", seed, step, mode)
			}
		}
		if rng.IntN(200) == 0 { // go on from a crash
			m = m.CrashClone(CrashOptions{Mode: CrashMode(rng.IntN(4)), Seed: uint64(step)})
		}
	}
}

func TestMemNames(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("/a/b"))
	put(t, m, "a/b/c", "x")
	for _, name := range []string{"/a/b/c", "./a/b/c", "a//b/./c", "a/d/../b/c", "../a/b/c", path.Join("a", "b", "c")} {
		if got := text(t, m, name); got != "x" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if _, err := m.Create("/"); err == nil {
		t.Error("created the root")
	}
	if _, err := m.Create("a/b/c/d"); err == nil {
		t.Error("created a file in a file")
	}
	f, err := m.OpenReadWrite("a/b/c")
	must(t, err)
	for _, size := range []int64{-1, maxMemFile + 1, 1<<63 - 1} {
		_, err := f.WriteAt([]byte("x"), size)
		if err == nil || f.Truncate(size) == nil {
			t.Errorf("a size of %d is taken", size)
		}
	}
}

func BenchmarkMemAppend(b *testing.B) {
	for _, sync := range []bool{false, true} {
		b.Run(fmt.Sprintf("sync=%v", sync), func(b *testing.B) {
			m := NewMem()
			file, err := m.Create("a")
			if err != nil {
				b.Fatal(err)
			}
			p := make([]byte, 200)
			b.ReportAllocs()
			for i := range b.N {
				if _, err := file.WriteAt(p, int64(i*200)); err != nil {
					b.Fatal(err)
				}
				if sync {
					if err := file.Sync(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkCrashClone(b *testing.B) {
	m := NewMem()
	for i := range 20 {
		file, err := m.Create(fmt.Sprint(i))
		if err != nil {
			b.Fatal(err)
		}
		for k := range 100 {
			if _, err := file.WriteAt(make([]byte, 1000), int64(k*1000)); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, mode := range []CrashMode{Lost, All, Prefix, Chaos} {
		b.Run(fmt.Sprint(mode), func(b *testing.B) {
			for i := range b.N {
				m.CrashClone(CrashOptions{Mode: mode, Seed: uint64(i)})
			}
		})
	}
}

// TestCrashOfLinks crashes with a second name that is not synced: it is there or not,
// and what a sync of the file has made durable is so under both names.
func TestCrashOfLinks(t *testing.T) {
	m := NewMem()
	put(t, m, "a", "text")
	file, err := m.Open("a")
	must(t, err)
	must(t, file.Sync())
	must(t, m.SyncDir("/"))
	must(t, m.Link("a", "b"))
	is(t, "lost", outcomes(m, Lost, files(t)), "a=text")
	is(t, "chaos", outcomes(m, Chaos, files(t)), "a=text", "a=text b=text")
	must(t, m.SyncDir("/"))
	must(t, m.Remove("a"))
	is(t, "synced", outcomes(m, Lost, files(t)), "a=text b=text")
	clone := m.CrashClone(CrashOptions{Mode: All})
	if i, err := clone.Stat("b"); err != nil || m.Used() != chunkSize {
		t.Errorf("%+v, %v, %d bytes used", i, err, m.Used())
	}
}
