package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

// readLayout reads which files make up the store, from its manifest alone. It takes no
// lock: while another process writes, files may come and go.
func (s *store) readLayout() (*layout.Layout, manifest.Super, error) {
	o := manifest.Options{FS: vfs.OS(), Dir: s.Dir, ValueDir: s.ValueDir, ReadOnly: true}
	if keys := s.provider(); keys != nil {
		o.Keys = func(uuid [16]byte, _ bool) (*crypt.Ring, error) {
			k, err := keyring.Open(keyring.Options{FS: o.FS, Dir: s.Dir, UUID: uuid, Keys: keys})
			if err != nil {
				return nil, err
			}
			return k.Ring(), nil
		}
	}
	log, err := manifest.Load(o)
	if err != nil {
		return nil, manifest.Super{}, s.refused(err)
	}
	defer log.Close()
	return log.Layout(), log.Super(), nil
}

type treeCommand struct {
	readable
	Width int `default:"32" help:"Columns of a bar that stands for the largest file."`
}

// Run draws what the manifest says. It opens the store, so that no other process changes
// it meanwhile.
func (c *treeCommand) Run(a *app) error {
	if c.Width < 1 || c.Width > 500 {
		return wrongUsage("--width is from 1 to 500")
	}
	return c.read(a, func(db *brock.DB) error {
		l, _, err := c.readLayout()
		if err != nil {
			return err
		}
		out := bufio.NewWriter(a.out)
		t := db.Metrics().Tree
		if t.MemtableEntries > 0 {
			fmt.Fprintf(out, "journal, not flushed yet: %s\n", human.Things(t.MemtableEntries, "entry"))
		}
		drawRuns(out, l, c.Width)
		drawSegments(out, l, c.Width)
		return out.Flush()
	})
}

func drawRuns(out io.Writer, l *layout.Layout, width int) {
	fmt.Fprintf(out, "%s, the newest first\n", human.Things(int64(len(l.Runs())), "run"))
	var most uint64
	for _, r := range l.Runs() {
		most = max(most, r.FileBytes())
	}
	for _, r := range l.Runs() {
		fmt.Fprintf(out, "  %-6s %6d  %s %8s in %s  %s", r.Tier, r.ID, bar(width, most, r.FileBytes(), 0),
			human.Bytes(int64(r.FileBytes())), human.Things(int64(len(r.Files)), "file"), human.Things(int64(r.Entries), "entry"))
		if r.Deletes+r.RangeDeletes > 0 {
			fmt.Fprintf(out, ", %s", human.Things(int64(r.Deletes+r.RangeDeletes), "delete"))
		}
		fmt.Fprintf(out, "  versions %d to %d\n", r.MinVersion, r.MaxVersion)
	}
}

func drawSegments(out io.Writer, l *layout.Layout, width int) {
	fmt.Fprintf(out, "%s of values, ░ is dead\n", human.Things(int64(len(l.Segments())), "segment"))
	var most uint64
	for _, s := range l.Segments() {
		most = max(most, s.FileBytes)
	}
	for _, s := range l.Segments() {
		dead := min(s.DeadBytes(), s.FileBytes)
		fmt.Fprintf(out, "  %-7s %5d  %s %8s, %s dead, values of %s", s.Kind, s.Num, bar(width, most, s.FileBytes, dead),
			human.Bytes(int64(s.FileBytes)), human.Bytes(int64(dead)), human.Things(int64(l.Usage(s.Num).Runs), "run"))
		if state := s.State(); state.Status == layout.Relocated {
			fmt.Fprintf(out, ", now in segment %d", state.Target)
		}
		fmt.Fprintln(out)
	}
}

// bar returns size as a bar, with its dead part at the end. A size of most fills the width.
func bar(width int, most, size, dead uint64) string {
	cells := func(n uint64) int {
		if most == 0 || n == 0 {
			return 0
		}
		return max(1, int(float64(n)/float64(most)*float64(width)+0.5))
	}
	all, lost := cells(size), cells(dead)
	lost = min(lost, all)
	return strings.Repeat("█", all-lost) + strings.Repeat("░", lost) + strings.Repeat(" ", width-all)
}

// list lists the files of the store with what each is for, and those that are missing.
func (s *store) list(out io.Writer) error {
	l, super, failure := s.readLayout()
	if errors.Is(failure, brock.ErrNotExist) {
		return failure
	}
	var use func(n filename.Name) string
	if failure == nil {
		fmt.Fprintf(out, "store %x, format %d.%d, version %d at the last flush\n", super.UUID, super.Major, super.Minor, l.LastVersion())
		use = uses(s.Dir, l, super)
	} else {
		use = func(n filename.Name) string { return n.Kind.String() }
	}
	listed := make(map[string]bool)
	for _, d := range storeDirs(s.Dir, s.ValueDir) {
		entries, err := os.ReadDir(d)
		if err != nil {
			return errors.Join(failure, err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				continue // it is gone
			}
			listed[e.Name()] = true
			what := "not a file of the store"
			switch n, ok := filename.Parse(e.Name()); {
			case ok && n.Kind == filename.Super && d != s.Dir:
				what = "says whose values these are"
			case ok:
				what = use(n)
			}
			fmt.Fprintf(out, "%10s  %s  %s\n", human.Bytes(info.Size()), filepath.Join(d, e.Name()), what)
		}
	}
	if failure != nil {
		return failure
	}
	// A file that a writer has just removed is not missing: the layout of now does not name it.
	now, _, err := s.readLayout()
	if err != nil {
		return err
	}
	needed := filesOf(now)
	for _, n := range filesOf(l) {
		if !listed[n.String()] && slices.Contains(needed, n) {
			fmt.Fprintf(out, "%10s  %s  %s\n", "missing", n, use(n))
		}
	}
	return nil
}

// filesOf returns the files that the manifest names, the journal aside.
func filesOf(l *layout.Layout) (names []filename.Name) {
	for _, r := range l.Runs() {
		for _, f := range r.Files {
			names = append(names, filename.New(filename.Run, f.Num))
		}
	}
	for _, s := range l.Segments() {
		switch state := s.State(); state.Status {
		case layout.Live:
			names = append(names, filename.New(s.Kind, s.Num))
		case layout.Relocated:
			names = append(names, filename.New(filename.Forwarding, state.Map))
		}
	}
	return names
}

// uses returns a function that says in words what a file of the store is for.
func uses(dir string, l *layout.Layout, super manifest.Super) func(filename.Name) string {
	var keysIn entry.FileNum
	if c, err := keyring.Load(vfs.OS(), dir, super.UUID); err == nil {
		keysIn = c.Number
	}
	runs := make(map[entry.FileNum]*layout.Run)
	for _, r := range l.Runs() {
		for _, f := range r.Files {
			runs[f.Num] = r
		}
	}
	maps := make(map[entry.FileNum]entry.FileNum)
	for _, s := range l.Segments() {
		if state := s.State(); state.Status == layout.Relocated {
			maps[state.Map] = s.Num
		}
	}
	history := make(map[filename.Name]bool)
	for _, f := range l.AllFiles() { // what entries need, too, is told first
		history[f.Name] = true
	}
	return func(n filename.Name) string {
		left := "left over: the next writer removes it"
		if history[n] {
			left = "history, which brock watch reads"
		}
		switch n.Kind {
		case filename.Super:
			return "names the manifest: MANIFEST-" + fmt.Sprintf("%06d", super.Manifest)
		case filename.Lock:
			return "lock of the process that writes"
		case filename.Manifest:
			if n.Number == super.Manifest {
				return "log of what the files are"
			}
			return left
		case filename.Keyring:
			switch {
			case n.Number == keysIn:
				return "the data keys, wrapped by the master key: without it nobody can read the store"
			case n.Number < keysIn:
				return left
			}
			return "keyring that was not finished: the next writer completes it"
		case filename.Run:
			if r := runs[n.Number]; r != nil {
				return fmt.Sprintf("run %d, %s: %s, versions %d to %d", r.ID, r.Tier, human.Things(int64(r.Entries), "entry"), r.MinVersion, r.MaxVersion)
			}
			return left
		case filename.Forwarding:
			if from, ok := maps[n.Number]; ok {
				return fmt.Sprintf("where the records of segment %d are now", from)
			}
			return left
		}
		if s := l.Segment(n.Number); s != nil && s.State().Status == layout.Live {
			return fmt.Sprintf("segment of values: %s, %s dead of %s", human.Things(int64(s.Records), "record"), human.Bytes(int64(s.DeadBytes())), human.Bytes(int64(s.Bytes)))
		}
		if n.Kind == filename.Journal && n.Number > l.FlushedTo() {
			return "journal, not flushed yet"
		}
		return left
	}
}
