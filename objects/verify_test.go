package objects

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestDamageFailsItsPartOnly flips a bit of one part in a file. That part can't be read, and
// everything else can.
func TestDamageFailsItsPartOnly(t *testing.T) {
	mem := vfs.NewMem()
	o := storetest.Place{FS: mem, Dir: "/"}.TinyOptions("db", "")
	db, err := brock.Open(o)
	assert.OK(t, err)
	s, c, other := openStore(t, db), content(1, 20*part), content(2, 20*part)
	assert.OK(t, db.UpdateContext(t.Context(), brock.TxnOptions{MaxMemory: 4 * part}, func(txn *brock.Txn) error {
		return errors.Join(assert.ErrorOf(s.Put(txn, []byte("a"), bytes.NewReader(c), PutOptions{})),
			assert.ErrorOf(s.Put(txn, []byte("b"), bytes.NewReader(other), PutOptions{})))
	}))
	assert.OK(t, db.Close())
	const bad = 7
	struck := 0
	for _, name := range assert.Must(mem.List("/db")) {
		p := storetest.ReadFile(t, mem, "/db/"+name)
		if at := bytes.Index(p, c[bad*part+100:bad*part+200]); at >= 0 {
			storetest.FlipBit(t, mem, "/db/"+name, at)
			struck++
		}
	}
	assert.Equal(t, "files with the part", struck, 1)
	db = storetest.Open(t, o)
	s = openStore(t, db)
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		assert.SameText(t, "b", string(getBytes(t, &s.space, txn, []byte("b"))), string(other))
		a := assert.Must(s.Open(txn, []byte("a")))
		p := make([]byte, part)
		for n := range int64(20) {
			got, err := a.ReadAt(p, n*part)
			if n == bad {
				checkDamage(t, err, "a", bad)
				assert.OK(t, assert.ErrorOf(a.ReadAt(p[:10], n*part-10)))
				assert.Error(t, "a piece of it", assert.ErrorOf(a.ReadAt(p[:10], n*part+10)), brock.ErrCorrupt)
				assert.OK(t, assert.ErrorOf(a.ReadAt(p[:part-10], (n-1)*part)))
				assert.SameText(t, "before it", string(p[:part-10]), string(c[(n-1)*part:n*part-10]))
				continue
			}
			assert.OK(t, err)
			assert.SameText(t, "part", string(p[:got]), string(c[n*part:(n+1)*part]))
		}
		var to bytes.Buffer
		_, err := a.WriteTo(&to)
		checkDamage(t, err, "a", bad)
		assert.SameText(t, "before", to.String(), string(c[:bad*part]))
		before, err := io.ReadAll(assert.Must(s.Open(txn, []byte("a"))))
		checkDamage(t, err, "a", bad)
		assert.SameText(t, "before", string(before), string(c[:bad*part]))
		assert.Must(a.Seek((bad+1)*part, io.SeekStart))
		behind, err := io.ReadAll(a)
		assert.OK(t, err)
		assert.SameText(t, "behind", string(behind), string(c[(bad+1)*part:]))
		return nil
	}))
	var found []*DamageError
	assert.Error(t, "Verify", s.Verify(t.Context(), func(d *DamageError) { found = append(found, d) }), brock.ErrCorrupt)
	if len(found) != 1 {
		t.Fatalf("Verify reports %v", found)
	}
	checkDamage(t, found[0], "a", bad)
	// It can be overwritten.
	putBytes(t, s, "a", c)
	assert.OK(t, s.Verify(t.Context(), nil))
}

// TestMissingPart: no way of reading goes past a part that is missing.
func TestMissingPart(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	s, c := openStore(t, db), content(1, 4*part)
	putBytes(t, s, "a", c)
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		id := assert.Must(s.findHead(txn, []byte("a"))).id
		return txn.In(s.parts).Delete(id.partKey(1))
	}))
	assert.OK(t, db.View(func(txn *brock.Txn) error {
		a := assert.Must(s.Open(txn, []byte("a")))
		var to bytes.Buffer
		_, err := a.WriteTo(&to)
		checkDamage(t, err, "a", 1)
		read, err := io.ReadAll(a.Checked())
		checkDamage(t, err, "a", 1)
		got, err := a.ReadAt(make([]byte, 4*part), 0)
		checkDamage(t, err, "a", 1)
		assert.Equal(t, "ReadAt", got, part)
		for _, got := range []string{to.String(), string(read)} {
			assert.SameText(t, "before it", got, string(c[:part]))
		}
		return nil
	}))
}

// checkDamage wants a *DamageError that names this part.
func checkDamage(t *testing.T, err error, key string, part int64) {
	t.Helper()
	var d *DamageError
	if !errors.As(err, &d) || string(d.Key) != key || d.Part != part || !errors.Is(err, brock.ErrCorrupt) {
		t.Errorf("%v does not tell of part %d of %s", err, part, key)
	}
}

// TestVerifyFinds changes the two keyspaces in ways that nobody should, and wants Verify to tell.
func TestVerifyFinds(t *testing.T) {
	head := func(s *space, txn *brock.Txn) *head { return assert.Must(s.findHead(txn, []byte("a"))) }
	for what, c := range map[string]struct {
		change func(s *space, txn *brock.Txn) error
		want   []string
	}{
		"nothing": {func(*space, *brock.Txn) error { return nil }, nil},
		"missing parts": {func(s *space, txn *brock.Txn) error {
			id := head(s, txn).id
			return errors.Join(txn.In(s.parts).Delete(id.partKey(1)), txn.In(s.parts).Delete(id.partKey(2)))
		}, []string{"is missing", "is missing"}},
		"short part": {func(s *space, txn *brock.Txn) error {
			id := head(s, txn).id
			return txn.In(s.parts).Set(id.partKey(2), []byte("short"))
		}, []string{"has a wrong length"}},
		"other content": {func(s *space, txn *brock.Txn) error {
			id := head(s, txn).id
			return txn.In(s.parts).Set(id.partKey(1), make([]byte, part))
		}, []string{"has another digest than its head says"}},
		"part behind the end": {func(s *space, txn *brock.Txn) error {
			id := head(s, txn).id
			return txn.In(s.parts).Set(id.partKey(5), nil)
		}, []string{"has a part that is none of it"}},
		"key between parts": {func(s *space, txn *brock.Txn) error {
			id := head(s, txn).id
			return txn.In(s.parts).Set(append(id.partKey(1), 1), nil)
		}, []string{"has a part that is none of it"}},
		"parts without a head": {func(s *space, txn *brock.Txn) error { return txn.In(s.heads).Delete([]byte("a")) },
			[]string{"there are parts without a head"}},
		"two heads": {func(s *space, txn *brock.Txn) error {
			return txn.In(s.heads).Set([]byte("copy"), head(s, txn).encodeHead())
		}, []string{"two heads have the same parts"}},
		"no head": {func(s *space, txn *brock.Txn) error { return txn.In(s.heads).Set([]byte("a"), []byte{1, 2, 3}) },
			[]string{"has a value that is no head"}},
		"head of a blob": {func(s *space, txn *brock.Txn) error {
			h := head(s, txn)
			h.kind, h.refs = blobHead, 1
			return txn.In(s.heads).Set([]byte("a"), h.encodeHead())
		}, []string{"has a head of kind 2, not 1"}},
		"impossible length": {func(s *space, txn *brock.Txn) error {
			h := head(s, txn)
			h.size = -1
			return txn.In(s.heads).Set([]byte("a"), h.encodeHead())
		}, []string{"has a head with a field that is not possible"}},
		"foreign keys": {func(s *space, txn *brock.Txn) error {
			parts := txn.In(s.parts)
			return errors.Join(parts.Set([]byte("a"), nil), parts.Set([]byte("q"), nil), parts.Set([]byte("z"), nil), parts.Set([]byte("p1"), nil))
		}, slices.Repeat([]string{"there is a key that no part has"}, 4)},
		"no mark": {func(s *space, txn *brock.Txn) error { return txn.In(s.parts).Set([]byte("s1"), nil) },
			[]string{"a mark of an upload is none"}},
	} {
		t.Run(what, func(t *testing.T) {
			db := storetest.Open(t, brock.Options{})
			s := openStore(t, db)
			putBytes(t, s, "a", content(1, 3*part))
			putBytes(t, s, "b", content(1, 3*part))
			assert.OK(t, db.Update(func(txn *brock.Txn) error { return c.change(&s.space, txn) }))
			if got := problems(t, &s.space); !slices.Equal(got, c.want) {
				t.Errorf("Verify finds %q, want %q", got, c.want)
			}
		})
	}
}

// TestVerifyFindsMisplacedBlobs: a blob that is not under its digest is found.
func TestVerifyFindsMisplacedBlobs(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	b := openBlobs(t, db)
	info := assert.Must(b.Upload(t.Context(), strings.NewReader("b"), PutOptions{}, nil))
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		h := assert.Must(b.findHead(txn, info.Key))
		return errors.Join(txn.In(b.heads).Delete(info.Key), txn.In(b.heads).Set([]byte("x"), h.encodeHead()))
	}))
	if got := problems(t, &b.space); !slices.Equal(got, []string{"is not under its digest"}) {
		t.Errorf("Verify finds %q", got)
	}
}

// TestSharesOfIDs: whatever share of the ids is looked at at a time, each orphan is found once.
func TestSharesOfIDs(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	s := openStore(t, db)
	want := 0
	for i := range 300 {
		putBytes(t, s, "k"+string(rune('a'+i%100)), content(i, 10))
	}
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		for info, err := range s.List(txn, nil) {
			if err != nil || want == 30 {
				return err
			}
			want++
			assert.OK(t, txn.In(s.heads).Delete(info.Key))
		}
		return nil
	}))
	for _, heads := range []int{0, 70, idsAtOnce, 5 * idsAtOnce, 70 * idsAtOnce} {
		found := map[objectID]int{}
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			return s.findOrphans(txn, heads, orphanSearch{func(id objectID) { found[id]++ }, func() { t.Error("twice") }, func() { t.Error("unknown") }})
		}))
		assert.Equal(t, "orphans", len(found), want)
		for _, n := range found {
			assert.Equal(t, "times", n, 1)
		}
	}
	assert.Equal(t, "swept", assert.Must(s.Sweep(t.Context())), want)
	checkAll(t, &s.space, 70)
}

// TestDamagedHead: other objects can be listed and read, Sweep removes nothing that the head may
// have, and the object can be removed as DamageError says.
func TestDamagedHead(t *testing.T) {
	db := storetest.Open(t, brock.Options{})
	s := openStore(t, db)
	for _, key := range []string{"a", "b", "c"} {
		putBytes(t, s, key, content(1, 3*part))
	}
	heads := storetest.OpenKeyspace(t, db, "o")
	for format, want := range map[byte]error{0: brock.ErrCorrupt, headFormat + 1: brock.ErrFormat} {
		assert.OK(t, heads.Set([]byte("b"), []byte{format}))
		assert.OK(t, db.View(func(txn *brock.Txn) error {
			var keys []string
			for info, err := range s.List(txn, nil) {
				keys = append(keys, string(info.Key))
				if string(info.Key) == "b" {
					assert.Error(t, "List", err, want)
					continue
				}
				assert.OK(t, err)
			}
			assert.Equal(t, "keys", strings.Join(keys, " "), "a b c")
			assert.Error(t, "Open", assert.ErrorOf(s.Open(txn, []byte("b"))), want)
			return nil
		}))
		assert.Error(t, "Sweep", assert.ErrorOf(s.Sweep(t.Context())), want)
		assert.Error(t, "Verify", s.Verify(t.Context(), nil), want)
		assert.Error(t, "Upload", assert.ErrorOf(s.Upload(t.Context(), []byte("b"), strings.NewReader("b"), PutOptions{}, nil)), want)
		assert.Error(t, "Delete", db.Update(func(txn *brock.Txn) error { return s.Delete(txn, []byte("b")) }), want)
		assert.Equal(t, "keys of parts", countParts(t, &s.space), 9)
	}
	assert.OK(t, heads.Delete([]byte("b")))
	assert.Equal(t, "swept", assert.Must(s.Sweep(t.Context())), 1)
	checkAll(t, &s.space, 6)
}

// TestOverwritesWithoutChecks: two writers with LastWriterWins leave parts without a head, which
// Verify and Sweep find; at other levels one of them conflicts.
func TestOverwritesWithoutChecks(t *testing.T) {
	for level, conflicts := range map[brock.Isolation]bool{brock.Serializable: true, brock.SnapshotIsolation: true, brock.LastWriterWins: false} {
		for _, before := range []int{0, 4} {
			db := storetest.Open(t, brock.Options{})
			s := openStore(t, db)
			if before > 0 {
				putBytes(t, s, "a", content(1, before*part))
			}
			var txns [2]*brock.Txn
			for i := range txns {
				txns[i] = assert.Must(db.Begin(t.Context(), brock.TxnOptions{Update: true, Isolation: level}))
				assert.Must(s.Put(txns[i], []byte("a"), bytes.NewReader(content(i, 3*part)), PutOptions{}))
			}
			assert.OK(t, txns[0].Commit())
			err := txns[1].Commit()
			if conflicts {
				assert.Error(t, "second", err, brock.ErrConflict)
				checkAll(t, &s.space, 3)
				continue
			}
			assert.OK(t, err)
			if got := problems(t, &s.space); !slices.Equal(got, []string{"there are parts without a head"}) {
				t.Errorf("Verify finds %q", got)
			}
			assert.Equal(t, "swept", assert.Must(s.Sweep(t.Context())), 1)
			checkAll(t, &s.space, 3)
		}
	}
}

// TestUploadsThatCrashed: what an upload has staged stays for an hour. Then the next Upload or
// Sweep removes it, and the upload, should it still live, is told.
func TestUploadsThatCrashed(t *testing.T) {
	clock := storetest.NewClock(1e12)
	db := storetest.Open(t, brock.Options{Now: clock.Now})
	s := openStore(t, db)
	stage := func() *head {
		return assert.Must(s.stageContent(t.Context(), bytes.NewReader(content(1, 3*part)), &PutOptions{}))
	}
	first := stage()
	checkAll(t, &s.space, 4)
	clock.Add(time.Hour - time.Minute)
	second := stage()
	assert.Equal(t, "swept", assert.Must(s.Sweep(t.Context())), 0)
	checkAll(t, &s.space, 8)
	clock.Add(time.Minute)
	assert.Equal(t, "swept", assert.Must(s.Sweep(t.Context())), 1)
	checkAll(t, &s.space, 4)
	assert.Error(t, "the first", db.Update(func(txn *brock.Txn) error { return s.takeMark(txn, first.id) }), ErrSwept)
	assert.Error(t, "the first", s.dropStaged(t.Context(), first.id), ErrSwept)
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		return errors.Join(s.takeMark(txn, second.id), assert.ErrorOf(s.linkAt([]byte("a")).link(txn, second)))
	}))
	checkAll(t, &s.space, 3)
	stage()
	clock.Add(time.Hour)
	assert.Must(s.Upload(t.Context(), []byte("b"), bytes.NewReader(content(2, 2*part)), PutOptions{}, nil))
	checkAll(t, &s.space, 5)
	// A mark of a later release is not removed.
	id := objectID{1}
	assert.OK(t, db.Update(func(txn *brock.Txn) error { return txn.In(s.parts).Set(id.stagedKey(), []byte{headFormat + 1}) }))
	assert.Error(t, "Sweep", assert.ErrorOf(s.Sweep(t.Context())), brock.ErrFormat)
	assert.OK(t, db.Update(func(txn *brock.Txn) error {
		return txn.In(s.parts).Set(id.stagedKey(), binary.LittleEndian.AppendUint32([]byte{headFormat}, 1))
	}))
	assert.Error(t, "Sweep", assert.ErrorOf(s.Sweep(t.Context())), brock.ErrCorrupt)
}
