package pairs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// jsonPair is a pair as JSON. A value that is no string stands for its own text.
type jsonPair struct {
	Key      *string         `json:"key,omitempty"`
	KeyB64   []byte          `json:"keyB64,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
	ValueB64 *[]byte         `json:"valueB64,omitempty"`
	Meta     byte            `json:"meta,omitempty"`
	Expires  time.Time       `json:"expires,omitzero"`
}

// MarshalJSON writes the pair as a line of a .jsonl file; a nil value is left out.
func (p Pair) MarshalJSON() ([]byte, error) {
	j := jsonPair{Meta: p.Meta, Expires: p.Expires.UTC()}
	if utf8.Valid(p.Key) {
		key := string(p.Key)
		j.Key = &key
	} else {
		j.KeyB64 = p.Key
	}
	switch {
	case p.Value == nil:
	case utf8.Valid(p.Value):
		j.Value = quote(p.Value)
	default:
		j.ValueB64 = &p.Value
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(j)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// quote is a JSON string of valid UTF-8.
func quote(b []byte) json.RawMessage {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(string(b)) // neither a string nor a Buffer can fail
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// UnmarshalJSON reads what MarshalJSON writes, and nothing more lenient: an
// unknown field would be data that is lost silently.
func (p *Pair) UnmarshalJSON(b []byte) error {
	var j jsonPair
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return err
	}
	*p = Pair{Key: j.KeyB64, Meta: j.Meta, Expires: j.Expires}
	switch {
	case j.Key != nil && j.KeyB64 != nil:
		return errors.New(`both "key" and "keyB64"`)
	case j.Key != nil:
		p.Key = []byte(*j.Key)
	}
	if len(p.Key) == 0 {
		return errors.New(`no "key"`)
	}
	switch {
	case j.Value != nil && j.ValueB64 != nil:
		return errors.New(`both "value" and "valueB64"`)
	case j.ValueB64 != nil:
		p.Value = *j.ValueB64
	case j.Value == nil:
		return errors.New(`no "value"`)
	case j.Value[0] == '"':
		var s string
		if err := json.Unmarshal(j.Value, &s); err != nil {
			return err
		}
		p.Value = []byte(s)
	default:
		p.Value = j.Value
	}
	return lossless(b, p.Key, p.Value)
}

// lossless refuses JSON in which the decoder replaced half of a surrogate pair.
func lossless(text, key, value []byte) error {
	const replacement = "\uFFFD"
	count := func(b []byte) int { return bytes.Count(b, []byte(replacement)) }
	decoded := count(key) + count(value)
	if decoded == 0 {
		return nil
	}
	if decoded > count(text)+strings.Count(strings.ToLower(string(text)), `\ufffd`) {
		return errors.New("half of a surrogate pair")
	}
	return nil
}

// jsonReader reads lines of JSON; empty lines are skipped.
type jsonReader struct{ *lines }

func (r *jsonReader) Next() (Pair, error) {
	for {
		line, err := r.next()
		if err != nil {
			return Pair{}, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if !utf8.Valid(line) {
			return Pair{}, r.bad("not UTF-8; keyB64 and valueB64 carry other bytes")
		}
		var p Pair
		if err := json.Unmarshal(line, &p); err != nil {
			return Pair{}, r.bad("%v", err)
		}
		if p.Key == nil { // null
			return Pair{}, r.bad("not an object")
		}
		return p, nil
	}
}

type jsonWriter struct{ e *json.Encoder }

func newJSONWriter(w io.Writer) *jsonWriter {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return &jsonWriter{e}
}

func (w *jsonWriter) Write(p Pair) error { return w.e.Encode(p) }

func (w *jsonWriter) Flush() error { return nil }
