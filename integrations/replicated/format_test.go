package replicated

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/hashicorp/raft"
)

var rewrite = flag.Bool("replicated.rewrite", false, "write testdata/format.golden anew")

// examples are one of each thing that FORMAT.md describes.
func examples() []struct {
	name   string
	b      []byte
	decode func(b []byte) (again []byte, err error)
} {
	command := new(Command).If([]byte("stock"), 17).If([]byte("new"), 0).Set([]byte("stock"), []byte("4")).
		Delete([]byte("old")).DeleteRange([]byte("a"), []byte("b")).DeleteRange([]byte("x"), nil)
	command.Operations[0].Meta = 9
	command.Operations[0].ExpiresAt = time.UnixMilli(1_800_000_000_000)
	write := entry{Command: *command, kind: kindWrite, session: 300, sequence: 2, time: 1_700_000_000_000}
	later := new(Command).IfRange([]byte("a"), []byte("b"), 4711, 3).If([]byte("stock"), 17).IfRange(nil, nil, 4711, 0).
		Set([]byte("stock"), []byte("4")).Delete([]byte("old"))
	later.Conditions[0].Keyspace, later.Conditions[2].Keyspace = "shops", "stocks"
	later.Operations[1].Keyspace = "shops"
	named := entry{Command: *later, kind: kindWrite, session: 300, sequence: 2, time: 1_700_000_000_000}
	keyspace := entry{kind: kindKeyspace, name: "shops"}
	begin := entry{kind: kindSession, time: 1_700_000_000_000}
	at := applied{index: 4711, term: 3, clock: 1_700_000_000_000}
	h := &header{name: "4711-00c0ffee", node: "n1", address: "n1:7070", applied: at}
	meta := &raft.SnapshotMeta{Index: 4712, Term: 3, ConfigurationIndex: 1, Configuration: raft.Configuration{
		Servers: []raft.Server{{ID: "n1", Address: "n1:7070"}, {ID: "n2", Address: "n2:7070", Suffrage: raft.Nonvoter}}}}
	one := &session{id: 300, sequence: 2, last: result{index: 4711, holds: true}}
	return []struct {
		name   string
		b      []byte
		decode func(b []byte) ([]byte, error)
	}{
		{"command", write.encode(), encodeAgain(decodeEntry)},
		{"command with keyspaces and ranges", named.encode(), encodeAgain(decodeEntry)},
		{"command that makes a keyspace", keyspace.encode(), encodeAgain(decodeEntry)},
		{"command that begins a session", begin.encode(), encodeAgain(decodeEntry)},
		{"applied", at.encode(), encodeAgain(decodeApplied)},
		{"session", one.encode(), func(b []byte) ([]byte, error) {
			s, err := decodeSession(sessionKey(300), b)
			return s.encode(), err
		}},
		{"snapshot header", h.encode(), encodeAgain(decodeHeader)},
		{"record without a snapshot", (&record{state: 1}).encode(), encodeAgain(decodeRecord)},
		{"record", (&record{3, h, meta}).encode(), encodeAgain(decodeRecord)},
		{"result", encodeResult(result{index: 4711, holds: true}), func(b []byte) ([]byte, error) {
			r, err := decodeResult(b)
			return encodeResult(r), err
		}},
	}
}

func encodeAgain[T interface{ encode() []byte }](decode func([]byte) (T, error)) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) {
		x, err := decode(b)
		if err != nil {
			return nil, err
		}
		return x.encode(), nil
	}
}

// dump is hex.Dump without lines of zeros.
func dump(b []byte) (out string) {
	for line := range strings.Lines(hex.Dump(b)) {
		if !strings.Contains(line, "|................|") {
			out += line
		}
	}
	return out
}

// TestFormatGolden compares what is written with what the first release has written.
func TestFormatGolden(t *testing.T) {
	var out strings.Builder
	for _, e := range examples() {
		fmt.Fprintf(&out, "%s, %d bytes:\n%s\n", e.name, len(e.b), dump(e.b))
		again, err := e.decode(e.b)
		if err != nil || !bytes.Equal(again, e.b) {
			t.Errorf("%s: read as %x, %v", e.name, again, err)
		}
	}
	golden := filepath.Join("testdata", "format.golden")
	if *rewrite {
		must(t, os.WriteFile(golden, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if out.String() != string(want) {
		t.Errorf("the format has changed:\n%s", out.String())
	}
}

// TestFormatRefuses feeds all cuts, and later formats.
func TestFormatRefuses(t *testing.T) {
	for _, e := range examples() {
		for n := range len(e.b) {
			if _, err := e.decode(e.b[:n]); err == nil {
				t.Errorf("%s: the first %d of %d bytes are read without an error", e.name, n, len(e.b))
			}
		}
		if _, err := e.decode(append(bytes.Clone(e.b), 1)); err == nil {
			t.Errorf("%s: a byte too many is no error", e.name)
		}
		if e.name == "result" { // it is not stored
			continue
		}
		later := bytes.Clone(e.b)
		later[0] = commandFormat + 1
		if _, err := e.decode(later); err == nil || !strings.Contains(err.Error(), "format") {
			t.Errorf("%s: a later format: %v", e.name, err)
		}
	}
	big := new(Command).Set([]byte("k"), make([]byte, MaxCommand))
	e := entry{Command: *big, kind: kindWrite, session: 1, sequence: 1}
	if _, err := decodeEntry(e.encode()); !isInvalid(err) {
		t.Errorf("a command above MaxCommand: %v", err)
	}
}

func isInvalid(err error) bool {
	return err != nil && strings.Contains(err.Error(), brock.ErrInvalid.Error())
}

// FuzzFormat reads any bytes as each of the things. What is read must be written the same again: so
// each thing has one form.
func FuzzFormat(f *testing.F) {
	all := examples()
	for i, e := range all {
		f.Add(uint8(i), e.b)
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		e := all[int(which)%len(all)]
		again, err := e.decode(b)
		if err == nil && !bytes.Equal(again, b) && !strings.HasPrefix(e.name, "record") { // raft reads configurations loosely
			t.Fatalf("%s: %x is read as %x", e.name, b, again)
		}
	})
}

// FuzzMessage sends any bytes to a node, over a connection and as a request. It has no group, so it
// must do nothing and answer something.
func FuzzMessage(f *testing.F) {
	for _, e := range examples() {
		f.Add(byte(callPropose), e.b)
	}
	f.Add(byte(callTerm), []byte(nil))
	f.Add(byte(callIndex), []byte(nil))
	f.Add(byte(callChange), changeBody(changeAdd, "n9", "n9:1"))
	f.Add(byte(callFetch), appendBytes(nil, []byte("1-00")))
	c := &cluster{t: f, net: newNetwork()}
	m := c.add("n1")
	c.start(m)
	f.Cleanup(c.close)
	n := m.node.Load()
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if status, _ := n.answer(ctx, kind, body); status == statusDone && kind != callTerm {
			t.Fatalf("kind %d is done by a node without a group", kind)
		}
		near, far := net.Pipe()
		go func() {
			_ = writeMessage(near, kind, body)
			_, _, _ = readMessage(near)
			_, _ = near.Write(body) // what is no message at all
			_ = near.Close()
		}()
		n.serveConn(far)
		_ = far.Close()
		if n.Err() != nil {
			t.Fatal(n.Err())
		}
	})
}
