package pairs

import (
	"bufio"
	"bytes"
	"strings"
	"unicode/utf8"
)

// tabs are the rows of a TSV file; empty lines are skipped.
type tabs struct {
	*lines
}

func newTabs(b *bufio.Reader, at int64, name string) *tabs {
	return &tabs{newLines(b, at, name)}
}

func (t *tabs) row() ([]string, error) {
	for {
		line, err := t.next()
		if err != nil {
			return nil, err
		}
		if len(line) > 0 {
			return strings.Split(string(line), "\t"), nil
		}
	}
}

func (t *tabs) join(fields []string) string { return strings.Join(fields, "\t") }

type tabWriter struct {
	w     *bufio.Writer
	began bool
}

func (w *tabWriter) Write(p Pair) error {
	if !w.began {
		w.began = true
		if err := w.row(header); err != nil {
			return err
		}
	}
	return w.row(p.fields(plainInTSV))
}

func (w *tabWriter) row(fields []string) error {
	_, err := w.w.WriteString(strings.Join(fields, "\t") + "\n")
	return err
}

func plainInTSV(b []byte) bool { return utf8.Valid(b) && !bytes.ContainsAny(b, "\t\r\n") }

func (w *tabWriter) Flush() error { return w.w.Flush() }
