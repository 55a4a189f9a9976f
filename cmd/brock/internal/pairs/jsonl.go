package pairs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// jsonPair is a pair as JSON. A value that is no string stands for its own text.
type jsonPair struct {
	Keyspace    json.RawMessage `json:"keyspace,omitempty"` // of the pair; or of a section, which has nothing else but options
	KeyspaceB64 []byte          `json:"keyspaceB64,omitempty"`

	Key      json.RawMessage `json:"key,omitempty"`
	KeyB64   []byte          `json:"keyB64,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
	ValueB64 *[]byte         `json:"valueB64,omitempty"`
	Meta     byte            `json:"meta,omitempty"`
	Version  uint64          `json:"version,omitempty"`
	Expires  time.Time       `json:"expires,omitzero"`
	Options  *Options        `json:"options,omitempty"`

	Deleted    bool `json:"deleted,omitempty"`
	OnlyLatest bool `json:"onlyLatest,omitempty"`
}

// MarshalJSON writes the pair as a line of a .jsonl file; a nil value is left out.
func (p Pair) MarshalJSON() ([]byte, error) {
	if p.Section != nil {
		return p.Section.MarshalJSON()
	}
	j := jsonPair{Meta: p.Meta, Version: p.Version, Expires: p.Expires.UTC(), Deleted: p.Deleted, OnlyLatest: p.OnlyLatest}
	if p.Keyspace != nil {
		j.setKeyspace([]byte(*p.Keyspace))
	}
	if utf8.Valid(p.Key) {
		j.Key = quote(p.Key)
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
	return j.encode()
}

func (j *jsonPair) setKeyspace(name []byte) {
	if utf8.Valid(name) {
		j.Keyspace = quote(name)
	} else {
		j.KeyspaceB64 = name
	}
}

func (j *jsonPair) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(j)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// quote returns valid UTF-8 as a JSON string.
func quote(b []byte) json.RawMessage { return appendQuoted(nil, string(b)) }

// appendQuoted appends valid UTF-8 as a JSON string.
func appendQuoted(to []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return appendEscaped(to, s)
		}
	}
	to = slices.Grow(to, len(s)+2)
	return append(append(append(to, '"'), s...), '"')
}

// appendEscaped is appendQuoted for any text.
func appendEscaped(to []byte, s string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // neither a string nor a Buffer can fail
	return append(to, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
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
	section, err := j.section()
	if section != nil || err != nil {
		*p = Pair{Section: section}
		return err
	}
	*p = Pair{Key: j.KeyB64, Meta: j.Meta, Version: j.Version, Expires: j.Expires, Deleted: j.Deleted, OnlyLatest: j.OnlyLatest}
	if p.Keyspace, err = j.keyspace(); err != nil {
		return err
	}
	switch {
	case j.Key != nil && j.KeyB64 != nil:
		return errors.New(`both "key" and "keyB64"`)
	case j.Value != nil && j.ValueB64 != nil:
		return errors.New(`both "value" and "valueB64"`)
	}
	if j.Key != nil {
		if p.Key, err = unquote(j.Key); err != nil {
			return fmt.Errorf("key: %w", err)
		}
	}
	if j.Key == nil && j.KeyB64 == nil {
		return errNoKey
	}
	switch hasValue := j.Value != nil || j.ValueB64 != nil; {
	case j.Deleted && (hasValue || j.Meta != 0 || !j.Expires.IsZero() || j.OnlyLatest):
		return errDeleted
	case j.Deleted:
	case j.ValueB64 != nil:
		p.Value = *j.ValueB64
	case j.Value == nil:
		return errNoValue
	case j.Value[0] != '"':
		p.Value = j.Value
	default:
		if p.Value, err = unquote(j.Value); err != nil {
			return fmt.Errorf("value: %w", err)
		}
	}
	return nil
}

// unquote returns the bytes of a JSON string. It returns an error for half of a surrogate pair,
// which the decoder would replace.
func unquote(raw json.RawMessage) ([]byte, error) {
	if raw[0] != '"' {
		return nil, errNoText
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return bytes.Clone(raw[1 : len(raw)-1]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	const replacement = "\uFFFD"
	if n := strings.Count(s, replacement); n > 0 &&
		n > bytes.Count(raw, []byte(replacement))+bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`)) {
		return nil, errors.New("half of a surrogate pair")
	}
	return []byte(s), nil
}

// jsonReader reads lines of JSON; empty lines are skipped.
type jsonReader struct {
	*lines
	key string // the field of any object that is its key; "" = the objects are pairs
}

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
		switch {
		case !json.Valid(line):
			err = json.Unmarshal(line, &p)
			return Pair{}, r.bad("not JSON: %v", plain(err))
		case r.key != "":
			p, err = keyed(line, r.key)
		default:
			p, err = pairOf(line)
		}
		if err != nil {
			return Pair{}, r.bad("%v", plain(err))
		}
		return p, nil
	}
}

// plain returns a message without the name of the package, and with help for an object that
// was not meant as a pair.
func plain(err error) error {
	text := strings.TrimPrefix(err.Error(), "json: ")
	unknown := strings.HasPrefix(text, "unknown field")
	var other *json.UnmarshalTypeError
	if errors.As(err, &other) {
		text = errObject.Error()
		if other.Field != "" {
			text = fmt.Sprintf("%q can't be a %s", other.Field, other.Value)
		}
	}
	if unknown || other != nil || err == errNoKey || err == errNoValue || errors.Is(err, errNoText) {
		text += ` (a pair is {"key": "...", "value": ...}; --key FIELD takes any objects)`
	}
	return errors.New(text)
}

var (
	errNoKey   = errors.New(`no "key"`)
	errNoValue = errors.New(`no "value"`)
	errDeleted = errors.New(`"deleted" goes with a key and a version only`)
	errNoText  = errors.New("not a string")
	errObject  = errors.New("not an object")
)

// pairOf returns a line that is valid JSON as a pair. It takes a key and a value, and nothing else,
// from where they are in the line: json.Unmarshal takes five times as long.
func pairOf(line []byte) (p Pair, err error) {
	var key, value, keyspace json.RawMessage
	plain := eachMember(line, func(name, raw []byte) bool {
		switch {
		case string(name) == `"keyspace"` && keyspace == nil && raw[0] == '"':
			keyspace = raw
		case string(name) == `"version"`:
			p.Version, err = strconv.ParseUint(string(raw), 10, 64)
			return err == nil
		case string(name) == `"key"` && key == nil:
			key = raw
		case string(name) == `"value"` && value == nil:
			value = raw
		default:
			return false
		}
		return true
	})
	if !plain || len(key) <= len(`""`) || key[0] != '"' || value == nil {
		err = json.Unmarshal(line, &p)
		return p, err
	}
	if keyspace != nil {
		name, err := unquote(keyspace)
		if err != nil {
			return p, fmt.Errorf("keyspace: %w", err)
		}
		text := string(name)
		p.Keyspace = &text
	}
	if p.Key, err = unquote(key); err != nil {
		return p, fmt.Errorf("key: %w", err)
	}
	if value[0] != '"' {
		p.Value = bytes.Clone(value)
	} else if p.Value, err = unquote(value); err != nil {
		return p, fmt.Errorf("value: %w", err)
	}
	return p, nil
}

// keyed returns any object as a pair: the text of one field is the key, the line is the value.
func keyed(line []byte, field string) (p Pair, err error) {
	raw, err := member(line, field)
	switch {
	case err != nil:
		return p, err
	case raw == nil:
		return p, fmt.Errorf("no field %q", field)
	case raw[0] == '"':
		if p.Key, err = unquote(raw); err != nil {
			return p, fmt.Errorf("field %q: %w", field, err)
		}
	case raw[0] == '{' || raw[0] == '[' || string(raw) == "null":
		return p, fmt.Errorf("field %q is neither text nor a number", field)
	default:
		p.Key = bytes.Clone(raw)
	}
	if len(p.Key) == 0 {
		return p, fmt.Errorf("field %q is empty", field)
	}
	p.Value = bytes.TrimSpace(bytes.Clone(line))
	return p, nil
}

type jsonWriter struct{ e *json.Encoder }

func newJSONWriter(w io.Writer) *jsonWriter {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return &jsonWriter{e}
}

func (w *jsonWriter) Write(p Pair) error { return w.e.Encode(p) }

func (w *jsonWriter) Begin(s Section) error { return w.e.Encode(s) }

func (w *jsonWriter) Flush() error { return nil }
