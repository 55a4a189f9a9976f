package pairs

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/brockdb/brock/internal/test/kit/corpus"
)

// FuzzObject takes objects apart as encoding/json does.
func FuzzObject(f *testing.F) {
	for _, line := range []string{
		`{"key":"a","value":"b"}`, ` { "key" : "\"\\" , "value" : {"key":["}",{}],"x":"{\\"} } `, `{"value":-1e3,"key":"\ud800"}`,
		`{"key":"a","key":"b","value":null}`, `{"Key":"a","value":[]}`, `{"k\u0065y":"a","value":""}`, `{}`, `{"key":"","value":""}`,
		`[{"key":"a","value":"b"}]`, `"key"`, `7`, `null`, `{"key":7,"value":true}`, "{\"key\":\"\u2028\",\"value\":\"\\ufffd\uFFFD\"}",
		`{"key":"a","value":"b","meta":3,"expires":"2030-01-01T00:00:00Z"}`, `{"keyspace":"a"}`,
	} {
		corpus.Add(f, line, "key")
	}
	f.Fuzz(func(t *testing.T, text, field string) {
		line := []byte(text)
		if !utf8.Valid(line) || !json.Valid(line) {
			return
		}
		var want Pair
		failed := json.Unmarshal(line, &want)
		got, err := pairOf(line)
		if (err == nil) != (failed == nil) || err == nil && !samePair(got, want) {
			t.Errorf("%q is %v, %v, want %v, %v", line, got, err, want, failed)
		}
		var object map[string]json.RawMessage
		failed = json.Unmarshal(line, &object)
		raw, err := member(line, field)
		if object == nil {
			if err == nil {
				t.Errorf("%q is an object with %q", line, raw)
			}
		} else if err != nil || failed == nil && !bytes.Equal(raw, object[field]) {
			t.Errorf("%q of %q is %q, %v, want %q, %v", field, line, raw, err, object[field], failed)
		}
	})
}
