package pairs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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
	name    string
	began   bool
	columns []string // of the header; nil without
}

func newTable(r rows, name string) *table { return &table{rows: r, name: name} }

func (t *table) Next() (Pair, error) {
	fields, err := t.row()
	if err != nil {
		return Pair{}, err
	}
	if !t.began {
		t.began = true
		if slices.Contains(fields, keyColumn) && slices.Contains(fields, valueColumn) {
			t.columns = slices.Clone(fields)
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
	case t.columns == nil && len(fields) < 2:
		return p, errors.New("one field, want a key and a value")
	case t.columns == nil && len(fields) == 2:
		p = Pair{Key: []byte(fields[0]), Value: []byte(fields[1])}
	case t.columns == nil:
		p = Pair{Key: []byte(fields[0]), Value: []byte(t.join(fields[1:]))}
	default:
		p, err = t.named(fields)
	}
	if err == nil && len(p.Key) == 0 {
		err = errors.New("empty key")
	}
	return p, err
}

// named reads a row by the names of the header.
func (t *table) named(fields []string) (p Pair, err error) {
	if len(fields) != len(t.columns) {
		return p, fmt.Errorf("%d fields, want %d as in the header", len(fields), len(t.columns))
	}
	attributes := ""
	for i, name := range t.columns {
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

// fields is the pair as a row below the header; plain tells which bytes a field
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
