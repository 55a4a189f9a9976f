package commit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
)

// plain is an Encoder of short records.
type plain struct{}

func (plain) EncodeEntry(dst []byte, e *entry.Entry) ([]byte, int) {
	return entry.AppendRecord(dst, e, false), len(dst)
}

func (plain) DecodeValue(*entry.Entry) ([]byte, error) { panic("nothing is compressed") }

// apply is a request of one operation, and what else it writes.
func apply(op Op, key, operand string, others ...string) *Request {
	r := request(0, LastWriterWins, others...)
	o := Operation{Key: []byte(key), Hash: checksum.HashKey(testSeed, []byte(key)), Encoder: plain{}}
	if _, err := o.AddStep(Step{op, []byte(operand)}); err != nil {
		panic(err)
	}
	r.Operations = []Operation{o}
	return r
}

// TestOperationsOfAGroup: members of a group are resolved in their order, over sets, deletes and range
// deletes of each other; who does not fit is refused alone. It would find a base from before the group.
func TestOperationsOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		commit(t, p, apply(OpAppend, "k", "0"))
		for i, res := range together(p,
			apply(OpAppend, "k", "1"),
			request(0, LastWriterWins, "k"),
			apply(OpAppend, "k", "2", "other"),
			apply(OpAdd, "k", "eight by"), // the wrong length
			apply(OpAppend, "k", "3"),
			request(0, LastWriterWins, "a~z"),
			apply(OpAppend, "k", "4"),
			apply(OpClearIf, "k", "5"), // nothing to do
			apply(OpClearIf, "k", "4"),
			apply(OpAppend, "k", "6"),
			request(0, LastWriterWins, "-k"),
			apply(OpAppend, "k", "7"),
		) {
			switch {
			case i == 3 && !errors.Is(res.err, errs.ErrInvalid), i != 3 && res.err != nil, i == 7 && res.version != 0:
				t.Errorf("request %d: %+v", i, res)
			}
		}
		got := ""
		for v := entry.Version(1); v <= m.visible(); v++ {
			s, _ := m.get("k", v)
			got += " " + s
		}
		// The range delete is not in the double's list of versions.
		if want := " 0 01 v v2 v23 v23 4  6  7"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestOperationsConflict: operations conflict with nobody, and a Serializable reader of a key with
// operations on it.
func TestOperationsConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, iso := range []Isolation{Serializable, SnapshotIsolation, LastWriterWins} {
			m := newMemory()
			p := start(m)
			one, two := apply(OpAppend, "k", "1"), apply(OpAppend, "k", "2")
			one.Check.Isolation, two.Check.Isolation = iso, iso
			reader := request(0, Serializable, "x")
			reader.Check.Reads = reads([]string{"k"}, nil)
			scanner := request(0, Serializable, "y")
			scanner.Check.Reads = reads(nil, [][2]string{{"j", "l"}})
			res := together(p, one, two, reader, scanner, request(0, SnapshotIsolation, "k"))
			wantVersion(t, res[0], 1)
			wantVersion(t, res[1], 2)
			for _, r := range res[2:] {
				if !errors.Is(r.err, errs.ErrConflict) {
					t.Errorf("%v: %+v", iso, r)
				}
			}
		}
	})
}

// TestOutdatedOperationsEnd: where the leader can never have the newest value, because others write it
// all the time, the last try has an exclusive turn. Without it the commit would be tried for ever, or
// compute from an old value.
func TestOutdatedOperationsEnd(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		m := newMemory()
		m.flushed, m.separated = flushed, !flushed
		p := start(m)
		reads := 0
		m.basesRead = func() error {
			reads++
			if reads <= operationTries { // then the turn is exclusive, and nobody can come between
				commit(t, p, request(0, LastWriterWins, "k"))
			}
			return nil
		}
		commit(t, p, apply(OpAppend, "k", "w"))
		if got, _ := m.get("k", m.visible()); got != "vw" || reads != operationTries+1 {
			t.Errorf("flushed %v: got %q after %d reads", flushed, got, reads)
		}
		// A failed read in the turn is this request's error only.
		m.basesRead = func() error {
			if reads++; reads <= 2*operationTries+1 {
				commit(t, p, request(0, LastWriterWins, "k"))
				return nil
			}
			return errDisk
		}
		if _, err := p.Commit(context.Background(), apply(OpAppend, "k", "x")); err != errDisk || p.Err() != nil {
			t.Errorf("got %v, stopped by %v", err, p.Err())
		}
	}
}

// TestRefusedGroupTakesIdleOperationsAlong: an OpClearIf that found another value in a group that was
// never written has found nothing that was ever there. A group after it computes from what there is.
func TestRefusedGroupTakesIdleOperationsAlong(t *testing.T) {
	for _, retracted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			p := start(m)
			commit(t, p, apply(OpAppend, "k", "a"))
			full := func() error { return errs.ErrNoSpace }
			if m.append_ = full; retracted {
				m.append_, m.sync_ = nil, full
			}
			synced := apply(OpAppend, "k", "b")
			synced.Synced = true
			for i, res := range together(p, synced, apply(OpClearIf, "k", "a")) {
				if !errors.Is(res.err, errs.ErrNoSpace) || res.version != 0 {
					t.Errorf("retracted %v, request %d: %+v", retracted, i, res)
				}
			}
			m.append_, m.sync_ = nil, nil
			commit(t, p, apply(OpAppend, "k", "c"))
			if got, _ := m.get("k", m.visible()); got != "ac" || m.visible() != 2 {
				t.Errorf("got %q at %d", got, m.visible())
			}
		})
	}
}

// TestGrownResultsLeaveTheGroup: results may be far longer than those by which a group was filled. They
// must not make a frame that is too long.
func TestGrownResultsLeaveTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		long := apply(OpAppend, "k", string(make([]byte, MaxOperand-1000)))
		members := []*Request{long}
		for range 500 {
			members = append(members, apply(OpAppend, "k", "x"))
		}
		most := 0
		m.prepare = func(n int) error { most = max(most, n); return nil }
		for _, res := range together(p, members...) {
			if res.err != nil {
				t.Fatal(res.err)
			}
		}
		if got, _ := m.get("k", m.visible()); len(got) != MaxOperand-500 || most > MaxBytes+64*len(members) {
			t.Errorf("a value of %d bytes, a group of %d", len(got), most)
		}
	})
}

// TestOneHashForTwoKeys: an operation must not take the record of another key with the same hash for its
// own, nor miss its own behind that.
func TestOneHashForTwoKeys(t *testing.T) {
	m := newMemory()
	a, b := request(0, LastWriterWins, "k"), request(0, LastWriterWins, "l")
	a.version, b.version = 1, 2
	w := groupWrites{store: m, seed: testSeed, before: []*Request{a, b}}
	w.indexBefore()
	k, l := checksum.HashKey(testSeed, []byte("k")), checksum.HashKey(testSeed, []byte("l"))
	w.keys[k] = w.keys[l]
	if _, err := w.readNewer(&Operation{Key: []byte("k"), Hash: k}, 0); err != errOutdated {
		t.Errorf("got %v", err)
	}
}

// TestVersionedKeys: each has the version that its request got, also where others of the group were refused.
func TestVersionedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		versioned := func() *Request {
			r := request(0, LastWriterWins, "other")
			for i := range 2 {
				key := binary.BigEndian.AppendUint32(append([]byte("q"), make([]byte, 8)...), uint32(i))
				r.Operations = append(r.Operations, Operation{Key: key, Versioned: true, Encoder: plain{}, Steps: []Step{{Operand: fmt.Append(nil, i)}}})
			}
			return r
		}
		refused := apply(OpAdd, "other", "eight by")
		for i, res := range together(p, versioned(), refused, versioned()) {
			if (res.err == nil) != (i != 1) {
				t.Errorf("request %d: %+v", i, res)
			}
		}
		for v := uint64(1); v <= 2; v++ {
			for i := range uint32(2) {
				key := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte("q"), v), i)
				if got, ok := m.get(string(key), entry.Version(v)); !ok || got != fmt.Sprint(i) {
					t.Errorf("version %d: %q %v", v, got, ok)
				}
			}
		}
	})
}

// TestOperationsBehindVersions: an operation of a group finds what the versions of a member before it have
// left, whichever of them has set or deleted the key. It would find a set that a later version of the
// same member deletes by range, as if all of these writes were of one version.
func TestOperationsBehindVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := start(m)
		deleted, again := given("k", 10, 20), given("k", 31, 32) // k10, k20; k31, k32
		for _, r := range []*Request{deleted, again} {
			rest, n := payload("k~l")
			at := Given{Version: r.Given[1].Version + 1, Begin: len(r.Payload), Number: r.Records}
			r.Payload, r.Records, r.Ranges, r.Given = append(r.Payload, rest...), r.Records+n, 1, append(r.Given, at)
		}
		rest, n := payload("k32")
		again.Given = append(again.Given, Given{Version: 40, Begin: len(again.Payload), Number: again.Records})
		again.Payload, again.Records = append(again.Payload, rest...), again.Records+n
		results := together(p, deleted, apply(OpAppend, "k20", "1"), apply(OpAppend, "m", "1"), again, apply(OpAppend, "k31", "2"), apply(OpAppend, "k32", "2"))
		for i, want := range []entry.Version{21, 22, 23, 40, 41, 42} {
			wantVersion(t, results[i], want)
		}
		for key, want := range map[string]string{"k20": "1", "m": "1", "k31": "2", "k32": "v2"} {
			versions := m.keys[key]
			if got, _ := m.get(key, versions[len(versions)-1].version); got != want {
				t.Errorf("%s: %q, want %q", key, got, want)
			}
		}
	})
}
