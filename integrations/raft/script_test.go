package raftstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/script"
	"github.com/brockdb/brock/vfs"
	"github.com/hashicorp/raft"
)

// TestScripts runs the scripts of testdata/log, each on a new log.
func TestScripts(t *testing.T) {
	names, err := filepath.Glob("testdata/log/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := &scripted{disk: vfs.NewMem()}
			s.store = assert.Must(OpenStore(smallFiles(s.disk), Options{}))
			script.Run(t, name, s.do)
			assert.OK(t, s.store.Close())
		})
	}
}

// smallFiles are options of a store whose files are full after some entries.
func smallFiles(disk vfs.FS) brock.Options {
	o := brock.Options{Dir: "raft", FS: disk}
	o.MemoryLimit = 4 << 20
	o.Tuning = brock.Tuning{MemtableSize: 64 << 10, SegmentSize: 64 << 10, RunFileSize: 64 << 10}
	return o
}

// entry returns the entry of an index and term, with at least size bytes of data, or as many as its
// index says if size is 0.
func entry(index, term uint64, size int) *raft.Log {
	if size == 0 {
		size = int(index * 37 % 700)
	}
	rng := rand.New(rand.NewPCG(index, term))
	data := binary.BigEndian.AppendUint64(nil, index)
	data = binary.BigEndian.AppendUint64(data, term)
	for len(data) < size {
		data = binary.LittleEndian.AppendUint64(data, rng.Uint64())
	}
	return &raft.Log{Index: index, Term: term, Data: data}
}

// checkEntry reports whether l is what entry has made.
func checkEntry(l *raft.Log) bool {
	return l.Type == raft.LogCommand && bytes.Equal(l.Data, entry(l.Index, l.Term, len(l.Data)-7).Data)
}

// scripted is the log of a script.
type scripted struct {
	disk  *vfs.Mem
	store *Store
}

func (s *scripted) do(t *testing.T, c *script.Case) string {
	number := func(key string, missing uint64) uint64 {
		n, err := strconv.ParseUint(c.String(key, strconv.FormatUint(missing, 10)), 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", c.Pos, err)
		}
		return n
	}
	switch c.Cmd {
	case "append":
		return s.showEnds(s.store.StoreLogs(scriptedLogs(t, c, number)))
	case "delete":
		return s.showEnds(s.store.DeleteRange(number("from", 0), number("to", 0)))
	case "reopen":
		assert.OK(t, s.store.Close())
		next, err := OpenStore(smallFiles(s.disk), Options{AllowGaps: c.Has("gaps")})
		if err != nil {
			return kindOf(err)
		}
		s.store = next
		return s.showEnds(nil)
	case "flush":
		assert.OK(t, s.store.DB().Flush(t.Context()))
		return s.showEnds(nil)
	case "get":
		l := raft.Log{}
		if err := s.store.GetLog(number("index", 0), &l); err != nil {
			return kindOf(err)
		}
		return fmt.Sprintf("term %d, whole %v", l.Term, checkEntry(&l))
	case "stage":
		return kindOf(s.store.StageCommitIndex(number("index", 0)))
	case "commit":
		index, err := s.store.GetCommitIndex()
		if err != nil {
			return kindOf(err)
		}
		return fmt.Sprint(index)
	case "check":
		return checkLog(t, s.store)
	case "list":
		return s.list(t)
	}
	t.Fatalf("%s: no command %s", c.Pos, c.Cmd)
	return ""
}

// scriptedLogs returns the entries that a command names.
func scriptedLogs(t *testing.T, c *script.Case, number func(string, uint64) uint64) (logs []*raft.Log) {
	term, size := number("term", 1), int(number("size", 0))
	for _, arg := range c.Args {
		if arg.Key != "indexes" {
			continue
		}
		for _, value := range arg.Values {
			if value == "" {
				continue
			}
			index, err := strconv.ParseUint(value, 10, 64)
			assert.OK(t, err)
			logs = append(logs, entry(index, term, size))
		}
	}
	from := number("from", 0)
	for i := range number("n", 0) {
		logs = append(logs, entry(from+i, term, size))
	}
	return logs
}

// kindOf names the error that errors.Is finds; "" for nil.
func kindOf(err error) string {
	if err == nil {
		return ""
	}
	for _, known := range []struct {
		err  error
		name string
	}{
		{raft.ErrLogNotFound, "ErrLogNotFound"}, {ErrGap, "ErrGap"}, {ErrMiddle, "ErrMiddle"},
		{brock.ErrInvalid, "ErrInvalid"}, {brock.ErrCorrupt, "ErrCorrupt"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return err.Error()
}

// showEnds returns the ends of the log, or the error.
func (s *scripted) showEnds(err error) string {
	if err != nil {
		return kindOf(err)
	}
	first, err := s.store.FirstIndex()
	last, err2 := s.store.LastIndex()
	if err := errors.Join(err, err2); err != nil {
		return kindOf(err)
	}
	return fmt.Sprintf("%d to %d", first, last)
}

// checkLog reads the whole log, and what is beside its ends. It returns the ends of each term.
func checkLog(t testing.TB, s *Store) string {
	t.Helper()
	first, err := s.FirstIndex()
	assert.OK(t, err)
	last, err := s.LastIndex()
	assert.OK(t, err)
	for _, beside := range []uint64{first - 1, last + 1} {
		if err := s.GetLog(beside, &raft.Log{}); err != raft.ErrLogNotFound {
			t.Errorf("of %d to %d, entry %d: %v", first, last, beside, err)
		}
	}
	if last == 0 {
		return "empty"
	}
	var spans []string
	begin, term := first, uint64(0)
	for index := first; index <= last; index++ {
		var l raft.Log
		if err := s.GetLog(index, &l); err != nil {
			t.Fatalf("entry %d: %v", index, err)
		}
		if l.Index != index || !checkEntry(&l) {
			t.Fatalf("entry %d is of index %d and term %d, with %d bytes", index, l.Index, l.Term, len(l.Data))
		}
		if term != 0 && l.Term != term {
			spans = append(spans, fmt.Sprintf("%d to %d of term %d", begin, index-1, term))
			begin = index
		}
		term = l.Term
	}
	spans = append(spans, fmt.Sprintf("%d to %d of term %d", begin, last, term))
	return strings.Join(spans, "\n")
}

// list returns all entries of a log with gaps.
func (s *scripted) list(t *testing.T) string {
	var all []string
	first, _ := s.store.FirstIndex()
	last, _ := s.store.LastIndex()
	for index := first; index <= last && last > 0; index++ {
		var l raft.Log
		err := s.store.GetLog(index, &l)
		if err == raft.ErrLogNotFound {
			continue
		}
		assert.OK(t, err)
		all = append(all, fmt.Sprintf("%d of term %d", index, l.Term))
		if !checkEntry(&l) {
			t.Errorf("entry %d is not whole", index)
		}
	}
	return strings.Join(all, ", ")
}
