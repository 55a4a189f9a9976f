package entry

import (
	"bytes"
	"testing"
)

const maxPrefix = 5 // bytes of the longest prefix

func keyspaceIDs() []KeyspaceID {
	var ids []KeyspaceID
	for id := KeyspaceID(0); id < 70000; id++ {
		ids = append(ids, id)
	}
	for shift := 17; shift < 32; shift++ {
		for d := -300; d <= 300; d += 3 {
			ids = append(ids, KeyspaceID(int64(1)<<shift+int64(d)))
		}
	}
	return append(ids, MaxKeyspaceID-1, MaxKeyspaceID)
}

// Prefixes sort as the numbers do, none begins another, and each leads back.
func TestKeyspacePrefixes(t *testing.T) {
	var last []byte
	for i, id := range keyspaceIDs() {
		p := AppendKeyspace(nil, id)
		if i > 0 && (bytes.Compare(last, p) >= 0 || bytes.HasPrefix(p, last)) {
			t.Fatalf("%x after %x, for %d", p, last, id)
		}
		if len(p) > maxPrefix || PrefixLen(p[0]) != len(p) || p[0] >= pastPrefix {
			t.Fatalf("%d has prefix %x", id, p)
		}
		if got, ok := KeyspaceOf(append(p[:len(p):len(p)], 0, 255)); !ok || got != id {
			t.Fatalf("prefix %x of %d leads to %d, %v", p, id, got, ok)
		}
		if end := AfterKeyspace(id); bytes.Compare(end, append(p[:len(p):len(p)], 255, 255, 255)) <= 0 ||
			id < MaxKeyspaceID && bytes.Compare(end, AppendKeyspace(nil, id+1)) > 0 {
			t.Fatalf("after %d comes %x", id, end)
		}
		last = p
	}
	if len(AppendKeyspace(nil, 247)) != 1 || len(AppendKeyspace(nil, 248)) != 2 {
		t.Error("the one-byte prefixes end elsewhere")
	}
}

func TestNotAKeyspace(t *testing.T) {
	for _, key := range [][]byte{nil, {0xf8}, {0xf9, 1}, {0xf9, 0, 1}, {0xfb, 0, 0, 0, 1}, {0xfb, 255, 255, 255, 255}, {0xfc, 1, 1, 1, 1, 1}, {255}} {
		if id, ok := KeyspaceOf(key); ok {
			t.Errorf("%x is of keyspace %d", key, id)
		}
	}
	if MaxKey < 1<<20+maxPrefix {
		t.Error("MaxKey has no room for a user's key of 1 MiB")
	}
}
