package brock

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/engine"
	"github.com/brockdb/brock/report"
)

// TestLoggerIsToldOfFailedWork: damage that a collection has met is logged as an error, as that of
// a scrub is, and the line of each work that failed says why.
func TestLoggerIsToldOfFailedWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind     string
		segments int64
		err      error
		want     []string
	}{
		{"collection", 1, &CorruptionError{File: "000007.seg", Reason: "is bad"}, []string{"level=ERROR", "level=DEBUG msg=collection"}},
		{"flush", 0, errors.New("no luck"), []string{"level=DEBUG msg=flush", "no luck"}},
	} {
		var log bytes.Buffer
		r := newReporter(userFuncs{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		r.onWork(engine.Work{Kind: c.kind, Work: report.Work{Segments: c.segments, Err: c.err}})
		r.endReports()
		for _, part := range c.want {
			if !strings.Contains(log.String(), part) {
				t.Errorf("%s: the log lacks %q:\n%s", c.kind, part, &log)
			}
		}
	}
}
