package salvage

import (
	"slices"

	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/meta"
)

// levels are runs in the target's directory, for what exceeds the memory. Enough runs of a level
// become one of the next: so each entry is rewritten once a level, and few runs are read at once.
type levels struct {
	to   *maker
	runs [][]meta.Run // level 0 is the newest; in each level the newest run is last
	open []*run.Reader
}

// fanIn is how many runs of a level become one: so many are open at once, each with a buffer.
const fanIn = 10

// push adds a run to a level. join makes one run of several, oldest first.
func (l *levels) push(level int, m meta.Run, join func(list []meta.Run) (meta.Run, error)) error {
	if level == len(l.runs) {
		l.runs = append(l.runs, nil)
	}
	l.runs[level] = append(l.runs[level], m)
	list := l.runs[level]
	if len(list) < fanIn {
		return nil
	}
	joined, err := join(list)
	// Before they are removed: some systems remove no open file.
	l.closeRuns()
	if err != nil {
		return err
	}
	// The joined run has all of them.
	l.runs[level] = nil
	if err := l.to.removeRuns(list); err != nil {
		return err
	}
	return l.push(level+1, joined, join)
}

// listRuns returns all runs, oldest first.
func (l *levels) listRuns() (list []meta.Run) {
	for _, runs := range slices.Backward(l.runs) {
		list = append(list, runs...)
	}
	return list
}

// reader opens a run. It is valid until closeRuns.
func (l *levels) reader(m meta.Run) (*run.Reader, error) {
	r, err := l.to.openRun(m)
	if err == nil {
		l.open = append(l.open, r)
	}
	return r, err
}

// closeRuns closes what reader has opened.
func (l *levels) closeRuns() {
	for _, r := range l.open {
		_ = r.Close()
	}
	l.open = nil
}

// removeRuns removes the runs.
func (l *levels) removeRuns() error {
	l.closeRuns()
	list := l.listRuns()
	l.runs = nil
	return l.to.removeRuns(list)
}
