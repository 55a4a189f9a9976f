package main

import (
	"fmt"
	"strings"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
)

// lossText returns in words what a store that was opened up to damage lacks.
func lossText(l *brock.Loss) string {
	text := fmt.Sprintf("this is version %d, from before the damage; the store had reached version %d or a later one. ", l.Version, l.LastVersion)
	if l.Commits+l.Edits > 0 {
		text += fmt.Sprintf("Behind the damage are %s and %s of the list of files, in %s, which are left out. ",
			human.Things(l.Commits, "commit"), human.Things(l.Edits, "change"), human.Bytes(l.Bytes))
	}
	return text + "The damage: " + message(l.Damage)
}

// keysText returns in one line which keys damage concerns; "" if that is not known.
func keysText(c *brock.CorruptionError) string {
	var list []string
	for _, r := range c.Keys {
		from, to := "the first key", "the last key"
		if r.Lower != nil {
			from = keyText(r.Lower)
		}
		if r.Upper != nil {
			to = "before " + keyText(r.Upper)
		}
		text := from + " to " + to
		// [key, key and a zero byte) is one key.
		if n := len(r.Lower); len(r.Upper) == n+1 && r.Upper[n] == 0 && string(r.Upper[:n]) == string(r.Lower) {
			text = from
		}
		if r.Keyspace != "" {
			text += fmt.Sprintf(" of keyspace %q", r.Keyspace)
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// keyText returns a key for a message: the beginning of a long one.
func keyText(key []byte) string {
	const most = 128
	if len(key) > most {
		return fmt.Sprintf("%q…", key[:most])
	}
	return fmt.Sprintf("%q", key)
}
