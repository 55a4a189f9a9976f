package pairs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The columns that Writers write. A table that does not begin with these names
// is anybody's: its first column is the key, and the rest of the line the value.
const (
	keyColumn        = "key"
	valueColumn      = "value"
	attributesColumn = "attributes" // words: base64, meta=7, expires=(Unix milliseconds)
)

// rows splits a file into rows of fields.
type rows interface {
	row() ([]string, error) // valid until the next call; io.EOF at the end
	join(fields []string) string
	Span() Span
}

// table reads pairs from rows.
type table struct {
	rows
	name  string
	form  Form
	began bool
	columns
}

// columns is what the header of a table says.
type columns struct {
	names []string // nil: there is no header
	ours  bool     // the names are a Writer's
	key   int      // which column has the key; of others the first one
}

func newTable(r rows, f Form, name string) *table { return &table{rows: r, form: f, name: name} }

// bare reports whether the table has no header.
func (t *table) bare() bool { return t.began && t.names == nil }

func (t *table) Next() (Pair, error) {
	fields, err := t.row()
	if err != nil {
		return Pair{}, err
	}
	if !t.began {
		t.began = true
		named := slices.Contains(fields, keyColumn) && slices.Contains(fields, valueColumn)
		if named || t.form.Header || t.form.Key != "" {
			t.names, t.ours = slices.Clone(fields), named && t.form.Key == ""
			if t.key = max(slices.Index(fields, t.form.Key), 0); t.form.Key != "" && fields[t.key] != t.form.Key {
				return Pair{}, &SyntaxError{File: t.name, Line: t.Span().Line,
					Reason: fmt.Sprintf("no column %q; the columns are %q", t.form.Key, fields)}
			}
			return t.Next()
		}
	}
	p, err := t.pair(fields)
	if err != nil {
		return Pair{}, &SyntaxError{File: t.name, Line: t.Span().Line, Reason: err.Error()}
	}
	return p, nil
}

func (t *table) pair(fields []string) (p Pair, err error) {
	switch {
	case t.names != nil && len(fields) != len(t.names):
		return p, fmt.Errorf("number of fields: %d, want %d as in the header", len(fields), len(t.names))
	case t.ours:
		p, err = t.named(fields)
	case t.form.Key != "":
		p.Key = []byte(fields[t.key])
		p.Value, err = t.object(fields)
	case len(fields) < 2:
		return p, errors.New("one field, want a key and a value")
	case len(fields) == 2:
		p = Pair{Key: []byte(fields[0]), Value: []byte(fields[1])}
	default:
		p = Pair{Key: []byte(fields[0]), Value: []byte(t.join(fields[1:]))}
	}
	// The store takes it. But in a table of somebody else it is a cell that was left out.
	if err == nil && len(p.Key) == 0 && !t.ours {
		err = errors.New("empty key")
	}
	return p, err
}

// named reads a row by the names of the header.
func (t *table) named(fields []string) (p Pair, err error) {
	attributes := ""
	for i, name := range t.names {
		switch name {
		case keyColumn:
			p.Key = []byte(fields[i])
		case valueColumn:
			p.Value = []byte(fields[i])
		case attributesColumn:
			attributes = fields[i]
		default:
			return p, fmt.Errorf("column %q is none of key, value and attributes", name)
		}
	}
	return p, p.apply(attributes)
}

// object returns a row as a JSON object of its columns.
func (t *table) object(fields []string) ([]byte, error) {
	size := len("}")
	for i, f := range fields {
		size += len(t.names[i]) + len(f) + len(`,"":""`)
	}
	b := make([]byte, 0, size)
	for i, f := range fields {
		if !utf8.ValidString(f) || !utf8.ValidString(t.names[i]) {
			return nil, errors.New("not UTF-8, which a JSON object needs")
		}
		b = append(b, ","...)
		b = appendQuoted(b, t.names[i])
		b = appendQuoted(append(b, ':'), f)
	}
	b[0] = '{' // in the place of the first comma: a row has one field or more
	return append(b, '}'), nil
}

// apply reads the column of attributes.
func (p *Pair) apply(attributes string) (err error) {
	for _, word := range strings.Fields(attributes) {
		name, text, _ := strings.Cut(word, "=")
		var n uint64
		switch name {
		case "base64":
			p.Key, err = base64.StdEncoding.AppendDecode(nil, p.Key)
			if err == nil {
				p.Value, err = base64.StdEncoding.AppendDecode([]byte{}, p.Value)
			}
		case "meta":
			n, err = strconv.ParseUint(text, 10, 8)
			p.Meta = byte(n)
		case "expires":
			n, err = strconv.ParseUint(text, 10, 63)
			p.Expires = time.UnixMilli(int64(n))
		default:
			err = fmt.Errorf("unknown attribute %q", word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var header = []string{keyColumn, valueColumn, attributesColumn}

// fields returns the pair as a row below the header; plain reports which bytes a field
// can hold as they are.
func (p *Pair) fields(plain func([]byte) bool) []string {
	f := []string{string(p.Key), string(p.Value), ""}
	var words []string
	if !plain(p.Key) || !plain(p.Value) {
		words = append(words, "base64")
		f[0], f[1] = base64.StdEncoding.EncodeToString(p.Key), base64.StdEncoding.EncodeToString(p.Value)
	}
	if p.Meta != 0 {
		words = append(words, fmt.Sprintf("meta=%d", p.Meta))
	}
	if !p.Expires.IsZero() {
		words = append(words, fmt.Sprintf("expires=%d", p.Expires.UnixMilli()))
	}
	f[2] = strings.Join(words, " ")
	return f
}
