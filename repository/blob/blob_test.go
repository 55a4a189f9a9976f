package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/repository"
	brockblob "github.com/brockdb/brock/repository/blob"
	"github.com/brockdb/brock/vfs"
)

// each runs a test with a bucket in memory, one in a directory, and a part of one.
func each(t *testing.T, fn func(t *testing.T, s repository.Deleter)) {
	t.Run("memory", func(t *testing.T) { with(t, memblob.OpenBucket(nil), fn) })
	t.Run("prefix", func(t *testing.T) { with(t, blob.PrefixedBucket(memblob.OpenBucket(nil), "a/b/"), fn) })
	t.Run("directory", func(t *testing.T) {
		b, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true})
		if err != nil {
			t.Fatal(err)
		}
		with(t, b, fn)
	})
}

func with(t *testing.T, b *blob.Bucket, fn func(t *testing.T, s repository.Deleter)) {
	t.Helper()
	defer b.Close()
	fn(t, brockblob.New(b))
}

// TestStore holds a bucket to what repository.Store says.
func TestStore(t *testing.T) {
	each(t, func(t *testing.T, s repository.Deleter) {
		ctx := t.Context()
		if _, err := s.Get(ctx, "objects/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("get: %v", err)
		}
		if err := s.Delete(ctx, "objects/none"); err != nil {
			t.Errorf("delete: %v", err)
		}
		cut := errors.New("cut")
		long := strings.Repeat("x", 20<<20)
		for _, r := range []io.Reader{iotest.ErrReader(cut), io.MultiReader(strings.NewReader(long), iotest.ErrReader(cut))} {
			if err := s.Put(ctx, "objects/cut", r, int64(len(long))+1); !errors.Is(err, cut) {
				t.Errorf("put of what can't be read: %v", err)
			}
		}
		for _, size := range []int64{0, 4, 6} {
			if err := s.Put(ctx, "objects/cut", strings.NewReader("12345"), size); err == nil {
				t.Errorf("put of 5 bytes as %d", size)
			}
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := s.Put(ended, "objects/cut", strings.NewReader("12345"), 5); err == nil {
			t.Error("put after the end of the context")
		}
		for i := range 3 {
			p := bytes.Repeat([]byte{byte(i)}, i*1000)
			if err := s.Put(ctx, fmt.Sprint("objects/", i), bytes.NewReader(p), int64(len(p))); err != nil {
				t.Fatal(err)
			}
			r, err := s.Get(ctx, fmt.Sprint("objects/", i))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, p) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		}
		if err := errors.Join(s.Put(ctx, "backups/1", strings.NewReader("b"), 1), s.Delete(ctx, "objects/1")); err != nil {
			t.Fatal(err)
		}
		list := ""
		err := s.List(ctx, "objects/", func(o repository.Object) error {
			list += fmt.Sprintf("%s %d %v, ", o.Name, o.Size, o.Time.IsZero())
			return nil
		})
		if err != nil || list != "objects/0 0 false, objects/2 2000 false, " {
			t.Errorf("listed: %s, %v", list, err)
		}
		if err := s.List(ctx, "", func(repository.Object) error { return cut }); !errors.Is(err, cut) {
			t.Errorf("list: %v", err)
		}
	})
}

// TestBackups makes backups in a bucket, restores and prunes them.
func TestBackups(t *testing.T) {
	each(t, func(t *testing.T, s repository.Deleter) {
		ctx := t.Context()
		db, err := brock.Open(brock.Options{Dir: "store", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var made []repository.Done
		for i := range 3 {
			for j := range 50 {
				if err := db.Set(fmt.Append(nil, i, j), bytes.Repeat([]byte{byte(j)}, 2000)); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Set([]byte("round"), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
			done, err := repository.Backup(ctx, db, s, repository.Options{})
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, done)
		}
		if made[2].PutBytes >= made[2].Bytes {
			t.Errorf("everything was stored again: %+v", made[2])
		}
		for i, done := range made {
			fsys := vfs.NewMem()
			if _, err := repository.Restore(ctx, s, done.ID, "copy", repository.RestoreOptions{FS: fsys}); err != nil {
				t.Fatal(err)
			}
			restored, err := brock.Open(brock.Options{Dir: "copy", FS: fsys})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := restored.Get([]byte("round")); err != nil || string(got) != fmt.Sprint(i) {
				t.Errorf("backup %d has %q, %v", i, got, err)
			}
			if err := errors.Join(restored.Verify(ctx, nil), restored.Close()); err != nil {
				t.Error(err)
			}
		}
		if _, err := repository.Prune(ctx, s, repository.Keep{Last: 1}, repository.PruneOptions{NoBackups: true}); err != nil {
			t.Error(err)
		}
		if v, err := repository.Verify(ctx, s, repository.VerifyOptions{}, nil); err != nil || v.Backups != 1 || v.Unnamed != 0 {
			t.Errorf("verified: %+v, %v", v, err)
		}
	})
}
