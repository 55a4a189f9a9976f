package brockds

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	ds "github.com/ipfs/go-datastore"
	dsq "github.com/ipfs/go-datastore/query"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// TestSync: what was written before Sync has returned survives a power loss, whatever else is lost.
func TestSync(t *testing.T) {
	for _, durability := range []brock.Durability{brock.DefaultDurability, brock.Synced} {
		for range 20 {
			disk := vfs.NewMem()
			o := brock.Options{Dir: "d", FS: disk, Durability: durability}
			d, err := Open(o)
			assert.OK(t, err)
			for i := range 50 {
				put(t, d, fmt.Sprint("/synced/", i), "v")
			}
			assert.OK(t, d.Sync(bg, ds.NewKey("/synced")))
			for i := range 50 {
				put(t, d, fmt.Sprint("/later/", i), "v")
			}
			o.FS = disk.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: draw.Seed(t)})
			assert.OK(t, d.Close())
			crashed, err := Open(o)
			assert.OK(t, err)
			if n := len(query(t, crashed, dsq.Query{Prefix: "/synced"})); n != 50 {
				t.Errorf("%d of 50 are left", n)
			}
			if n := len(query(t, crashed, dsq.Query{Prefix: "/later"})); durability == brock.Synced && n != 50 {
				t.Errorf("%d of 50 synced writes are left", n)
			}
			assert.OK(t, crashed.Close())
		}
	}
}

// TestFullDisk: puts are refused and harm nothing, deletes and reads go on, and so do puts when there
// is space.
func TestFullDisk(t *testing.T) {
	disk := vfs.NewMem()
	disk.SetCapacity(16 << 20)
	d := open(t, brock.Options{Dir: "d", FS: disk, MemoryLimit: 4 << 20, Tuning: brock.Tuning{SegmentSize: 1 << 20}})
	value := make([]byte, 64<<10)
	n := 0
	for ; ; n++ {
		err := d.Put(bg, ds.RawKey(fmt.Sprint("/", n)), value)
		if errors.Is(err, brock.ErrNoSpace) {
			break
		}
		assert.OK(t, err)
	}
	if got := query(t, d, dsq.Query{KeysOnly: true}); len(got) != n || n < 50 {
		t.Fatalf("%d keys after %d puts", len(got), n)
	}
	for i := range n {
		assert.OK(t, d.Delete(bg, ds.RawKey(fmt.Sprint("/", i))))
	}
	assert.OK(t, d.CollectGarbage(bg))
	put(t, d, "/again", string(value))
	assert.OK(t, d.Check(bg))
}

// TestKilled kills a process that writes, and looks for what it has said it wrote.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("BROCKDS_DIR"); dir != "" {
		writeUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	said := 0
	for range 3 {
		child := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
		child.Env = append(os.Environ(), "BROCKDS_DIR="+dir)
		out, err := child.StdoutPipe()
		assert.OK(t, err)
		assert.OK(t, child.Start())
		lines := bufio.NewScanner(out)
		for range 200 {
			if !lines.Scan() {
				break
			}
		}
		assert.OK(t, child.Process.Kill())
		for more := true; more; more = lines.Scan() { // what it had said before
			if n, err := strconv.Atoi(lines.Text()); err == nil {
				said = n
			}
		}
		_ = child.Wait()
	}
	d := open(t, brock.Options{Dir: dir})
	assert.OK(t, d.Check(bg))
	got := map[string]int{}
	for e, err := range ds.QueryIter(bg, d, dsq.Query{KeysOnly: true}) {
		assert.OK(t, err)
		got[filepath.Dir(e.Key)]++
	}
	if said < 500 {
		t.Fatalf("the children said %d", said)
	}
	for i := range said + 1 {
		if n := got[fmt.Sprint("/", i)]; n != 3 {
			t.Fatalf("%d of the 3 entries of batch %d of %d are left", n, i, said)
		}
	}
	for dir, n := range got { // a batch that was not said: whole or not at all
		if n != 3 {
			t.Errorf("%d entries of batch %s", n, dir)
		}
	}
}

// writeUntilKilled commits batches of three entries, and says which it has committed.
func writeUntilKilled(t *testing.T, dir string) {
	d, err := Open(brock.Options{Dir: dir})
	assert.OK(t, err)
	seen, err := d.Query(bg, dsq.Query{KeysOnly: true})
	assert.OK(t, err)
	for n := len(keysOf(t, seen)) / 3; ; n++ {
		batch, err := d.Batch(bg)
		assert.OK(t, err)
		for i := range 3 {
			assert.OK(t, batch.Put(bg, ds.RawKey(fmt.Sprintf("/%d/%d", n, i)), make([]byte, i*1000)))
		}
		assert.OK(t, batch.Commit(bg))
		fmt.Println(n)
	}
}

// TestDamage: Check and Scrub find a byte that has rotted.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(brock.Options{Dir: dir})
	assert.OK(t, err)
	for i := range 100 {
		put(t, d, fmt.Sprint("/", i), string(make([]byte, 2000)))
	}
	assert.OK(t, d.CollectGarbage(bg))
	assert.OK(t, d.Check(bg))
	used, err := d.DiskUsage(bg)
	if err != nil || used < 200_000 || used > 2_000_000 {
		t.Errorf("%d bytes used, %v", used, err)
	}
	assert.OK(t, d.Close())
	runs, err := filepath.Glob(filepath.Join(dir, "*.run"))
	if err != nil || len(runs) == 0 {
		t.Fatalf("no run in the store: %v", err)
	}
	f, err := os.OpenFile(runs[0], os.O_RDWR, 0)
	assert.OK(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, 100)
	assert.OK(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b, 100)
	assert.OK(t, err)
	assert.OK(t, f.Close())
	if d, err = Open(brock.Options{Dir: dir}); err == nil {
		err = d.Check(bg)
		if err2 := d.Scrub(bg); !errors.Is(err2, brock.ErrCorrupt) {
			t.Errorf("Scrub: %v", err2)
		}
		_ = d.Close()
	}
	if !errors.Is(err, brock.ErrCorrupt) {
		t.Errorf("a byte has rotted: %v", err)
	}
}

// TestReadOnly: a store that is only read has nothing to sync, and refuses writes.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(brock.Options{Dir: dir})
	assert.OK(t, err)
	put(t, d, "/k", "v")
	assert.OK(t, d.Close())
	d = open(t, brock.Options{Dir: dir, Mode: brock.ReadOnly})
	assert.OK(t, d.Sync(bg, ds.NewKey("/")))
	if got, err := d.Get(bg, ds.NewKey("/k")); err != nil || string(got) != "v" {
		t.Errorf("%q, %v", got, err)
	}
	if err := d.Put(bg, ds.NewKey("/k"), nil); !errors.Is(err, brock.ErrReadOnly) {
		t.Errorf("Put: %v", err)
	}
}
