package pairs

import (
	"bytes"
	"encoding/json"
)

// eachMember calls fn with the name, in its quotes, and the value of each member of a JSON object,
// as they are in line, until fn returns false. It returns false if fn has, or if line is no object.
// line is valid JSON.
func eachMember(line []byte, fn func(name, raw []byte) bool) bool {
	line = bytes.TrimSpace(line)
	if line[0] != '{' {
		return false
	}
	for rest := bytes.TrimSpace(line[1:]); rest[0] != '}'; {
		n := textEnd(rest)
		name := rest[:n]
		rest = bytes.TrimSpace(rest[n:])
		rest = bytes.TrimSpace(rest[1:]) // the colon
		n = valueEnd(rest)
		if !fn(name, rest[:n]) {
			return false
		}
		rest = bytes.TrimSpace(rest[n:])
		if rest[0] == ',' {
			rest = bytes.TrimSpace(rest[1:])
		}
	}
	return true
}

// textEnd returns the length of the string with which valid JSON begins.
func textEnd(b []byte) int {
	n := 1
	for {
		n += bytes.IndexByte(b[n:], '"')
		slashes := 0
		for b[n-1-slashes] == '\\' {
			slashes++
		}
		n++
		if slashes%2 == 0 {
			return n
		}
	}
}

// valueEnd returns the length of the value with which valid JSON begins. Something of the object
// around it follows.
func valueEnd(b []byte) int {
	depth := 0
	for n := 0; ; n++ {
		switch b[n] {
		case '"':
			n += textEnd(b[n:]) - 1
			if depth == 0 {
				return n + 1
			}
		case '{', '[':
			depth++
		case '}', ']', ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return n // of a number or a word
			}
			if b[n] == '}' || b[n] == ']' {
				if depth--; depth == 0 {
					return n + 1
				}
			}
		}
	}
}

// member returns the value of a field of an object, the last one of that name; nil if there is
// none. It returns errObject if line, which is valid JSON, is no object.
func member(line []byte, field string) (found json.RawMessage, err error) {
	escaped := false
	isObject := eachMember(line, func(name, raw []byte) bool {
		escaped = bytes.IndexByte(name, '\\') >= 0
		if string(name[1:len(name)-1]) == field {
			found = raw
		}
		return !escaped
	})
	switch {
	case isObject:
		return found, nil
	case !escaped:
		return nil, errObject
	}
	var object map[string]json.RawMessage
	err = json.Unmarshal(line, &object)
	return object[field], err
}
