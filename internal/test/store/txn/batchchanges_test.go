package txn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// showChanges shows the changes of a batch as text, and the error at the end.
func showChanges(t *testing.T, b *brock.Batch) string {
	t.Helper()
	var out []string
	for c, err := range b.Changes() {
		if err != nil {
			return strings.Join(append(out, err.Error()), "; ")
		}
		s := fmt.Sprintf("%s %s/%q", c.Kind, c.Keyspace, c.Key)
		switch c.Kind {
		case brock.ChangeSet:
			s += fmt.Sprintf("=%.10q", assert.Must(c.Value()))
		case brock.ChangeDeleteRange:
			s += fmt.Sprintf("-%q", c.Upper)
			if c.Upper == nil {
				s += " and all behind"
			}
		}
		if c.Meta != 0 {
			s += fmt.Sprintf(" meta %d", c.Meta)
		}
		if !c.ExpiresAt.IsZero() {
			s += " until " + c.ExpiresAt.UTC().Format(time.DateOnly)
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func TestChangesOfABatch(t *testing.T) {
	db := storetest.Open(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Compression: brock.S2, CompressAbove: 1}})
	ks := storetest.OpenKeyspace(t, db, "ks")
	b := db.NewBatch()
	assert.Equal(t, "an empty batch", showChanges(t, b), "")
	assert.OK(t, errors.Join(
		b.Set([]byte("a"), []byte("1")), b.Set([]byte("a"), nil), b.In(ks).Delete([]byte("gone")), b.DeleteRange([]byte("a"), []byte("c")),
		b.In(ks).DeleteRange(nil, nil), b.DeleteRange([]byte("x"), nil), b.DeleteRange([]byte("x"), []byte("x")),
		b.SetEntry(brock.NewEntry([]byte("m"), []byte(strings.Repeat("again ", 1000))).WithMeta(7).WithExpiry(time.Date(2100, 1, 2, 0, 0, 0, 0, time.UTC)).WithOnlyLatest()),
	))
	want := `set /"a"="1"; set /"a"=""; delete ks/"gone"; delete range /"a"-"c"; delete range ks/""-"" and all behind; delete range /"x"-"" and all behind; ` +
		`set /"m"="again agai" meta 7 until 2100-01-02`
	assert.Equal(t, "changes", showChanges(t, b), want)
	assert.Equal(t, "once more", showChanges(t, b.In(ks)), want)
	// Its own memory can't show a value that a delete has not.
	for c, err := range b.Changes() {
		assert.OK(t, err)
		if c.Kind != brock.ChangeSet {
			assert.Error(t, "value of "+c.Kind.String(), assert.ErrorOf(c.Value()), brock.ErrInvalid)
		}
	}
	assert.OK(t, ks.Drop(t.Context()))
	assert.Equal(t, "with a dropped keyspace", showChanges(t, b), want)
}

// What is added in the loop is not yielded, and what ends the batch ends the loop.
func TestChangesOfABatchThatChanges(t *testing.T) {
	o := brock.Options{MemoryLimit: 8 << 20}
	for name, tc := range map[string]struct {
		do   func(b *brock.Batch) error
		want error
	}{
		"set":          {func(b *brock.Batch) error { return b.Set([]byte("b"), make([]byte, 1000)) }, nil},
		"reset":        {func(b *brock.Batch) error { b.Reset(); return nil }, brock.ErrInvalid},
		"reset, set":   {func(b *brock.Batch) error { b.Reset(); return b.Set(make([]byte, 500), nil) }, brock.ErrInvalid},
		"commit":       {func(b *brock.Batch) error { return assert.ErrorOf(b.Commit(t.Context(), 0)) }, brock.ErrInvalid},
		"spill":        {func(b *brock.Batch) error { return b.Set([]byte("b"), make([]byte, 3<<20)) }, brock.ErrInvalid},
		"many, spill":  {func(b *brock.Batch) error { return fillBatch(b, 4000) }, brock.ErrInvalid},
		"many, no end": {func(b *brock.Batch) error { return fillBatch(b, 100) }, nil},
	} {
		db := storetest.Open(t, o)
		b := db.NewBatch()
		for i := range 10 {
			assert.OK(t, b.Set(fmt.Appendf(nil, "k%d", i), nil))
		}
		n, last := 0, error(nil)
		for c, err := range b.Changes() {
			if last = err; err != nil {
				break
			}
			if n++; string(c.Key) != fmt.Sprintf("k%d", n-1) {
				t.Errorf("%s: change %d is %q", name, n, c.Key)
			}
			if n == 3 {
				assert.OK(t, tc.do(b))
			}
		}
		assert.Error(t, name, last, tc.want)
		if want := map[bool]int{true: 10, false: 3}[tc.want == nil]; n != want {
			t.Errorf("%s: %d changes, want %d", name, n, want)
		}
	}
	db := storetest.Open(t, o)
	b := db.NewBatch()
	assert.OK(t, b.Set([]byte("k"), nil))
	assert.Must(b.Commit(t.Context(), 0))
	assert.Error(t, "committed", assert.LastError(b.Changes()), brock.ErrInvalid)
	b.Reset()
	assert.OK(t, fillBatch(b, 4000))
	assert.Error(t, "in files", assert.LastError(b.Changes()), brock.ErrInvalid)
	b.Reset()
	assert.Equal(t, "reset", showChanges(t, b), "")
	assert.OK(t, db.Close())
	assert.Error(t, "closed", assert.LastError(b.Changes()), brock.ErrClosed)
	assert.Error(t, "zero", assert.LastError(new(brock.Batch).Changes()), brock.ErrClosed)
}

// fillBatch adds pairs of 1 KB.
func fillBatch(b *brock.Batch, n int) error {
	for i := range n {
		if err := b.Set(fmt.Appendf(nil, "fill%d", i), make([]byte, 1000)); err != nil {
			return err
		}
	}
	return nil
}

// Who applies the changes of random batches to another store has the same there.
func TestChangesOfABatchCanBeApplied(t *testing.T) {
	seed := draw.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	o := brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{ValueThreshold: 20, Compression: brock.Zstd, CompressAbove: 10}}
	from, to := storetest.Open(t, o), storetest.Open(t, brock.Options{})
	for _, name := range []string{"x", "y"} {
		storetest.OpenKeyspace(t, from, name)
		storetest.OpenKeyspace(t, to, name)
	}
	keyspace := func(db *brock.DB, name string) *brock.Keyspace {
		if name == "" {
			return db.Default()
		}
		return assert.Must(db.Keyspace(name))
	}
	for range 100 {
		a, b := from.NewBatch(), to.NewBatch()
		for range 1 + r.IntN(20) {
			in, key := a.In(keyspace(from, []string{"", "x", "y"}[r.IntN(3)])), []byte(storetest.DrawKey(r))
			switch r.IntN(6) {
			case 0:
				assert.OK(t, in.Delete(key))
			case 1:
				assert.OK(t, in.DeleteRange(brock.PrefixRange(key[:1])))
			default:
				assert.OK(t, in.SetEntry(brock.NewEntry(key, []byte(strings.Repeat(fmt.Sprint(r.IntN(100)), r.IntN(50)))).WithMeta(byte(r.IntN(3)))))
			}
		}
		for c, err := range a.Changes() {
			assert.OK(t, err)
			in := b.In(keyspace(to, c.Keyspace))
			switch c.Kind {
			case brock.ChangeSet:
				assert.OK(t, in.SetEntry(brock.NewEntry(c.Key, assert.Must(c.Value())).WithMeta(c.Meta)))
			case brock.ChangeDelete:
				assert.OK(t, in.Delete(c.Key))
			case brock.ChangeDeleteRange:
				assert.OK(t, in.DeleteRange(c.Key, c.Upper))
			}
		}
		assert.Must(a.Commit(t.Context(), brock.Buffered))
		assert.Must(b.Commit(t.Context(), brock.Buffered))
		assert.Equal(t, fmt.Sprintf("seed %d: contents", seed), storetest.ShowContents(t, to), storetest.ShowContents(t, from))
	}
}
