package keyring

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/test/kit/corpus"
)

func TestStaticKey(t *testing.T) {
	raw := bytes.Repeat([]byte{7}, masterSize)
	s := StaticKey(raw)
	clear(raw) // it has a copy
	key, binding := bytes.Repeat([]byte{8}, 32), []byte("binding")
	one, err := s.WrapKey(t.Context(), key, binding)
	if err != nil || len(one) != saltSize+32+16 {
		t.Fatalf("%d bytes, %v", len(one), err)
	}
	if two, _ := s.WrapKey(t.Context(), key, binding); bytes.Equal(one, two) {
		t.Error("the same bytes twice")
	}
	if got, err := s.UnwrapKey(t.Context(), one, binding); err != nil || !bytes.Equal(got, key) {
		t.Errorf("%x, %v", got, err)
	}
	for i := range one {
		p := bytes.Clone(one)
		p[i] ^= 1
		if _, err := s.UnwrapKey(t.Context(), p, binding); err == nil {
			t.Fatalf("byte %d changed: accepted", i)
		}
		if _, err := s.UnwrapKey(t.Context(), one[:i], binding); err == nil {
			t.Fatalf("cut to %d bytes: accepted", i)
		}
	}
	if _, err := s.UnwrapKey(t.Context(), one, []byte("another")); err == nil {
		t.Error("another binding: accepted")
	}
	if _, err := StaticKey(make([]byte, 31)).WrapKey(t.Context(), key, binding); !errors.Is(err, errs.ErrInvalid) {
		t.Error(err)
	}
}

// TestKnownAnswer: what releases before have wrapped is unwrapped.
func TestKnownAnswer(t *testing.T) {
	wrapped, _ := hex.DecodeString(knownWrapped)
	got, err := StaticKey(bytes.Repeat([]byte{7}, masterSize)).UnwrapKey(t.Context(), wrapped, []byte("binding"))
	if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{8}, 32)) {
		t.Errorf("%x, %v", got, err)
	}
}

// TestKeysAreNotPrinted in any way: not by verbs, in structs of others, in logs, as JSON.
func TestKeysAreNotPrinted(t *testing.T) {
	raw := []byte("0123456789abcdefghijklmnopqrstuv")
	p := StaticKey(raw)
	type holder struct {
		Keys Provider
		keys Provider
		list []Provider
	}
	h := holder{Keys: p, keys: p, list: []Provider{p}}
	var out strings.Builder
	for _, v := range []any{p, h, &h, []Provider{p}, map[string]Provider{"a": p}, fmt.Errorf("with %v", p)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%08b", "%c", "%U"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		fmt.Fprintln(&out, v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("text", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "v", v)
		if b, err := json.Marshal(v); err == nil {
			out.Write(b)
		}
	}
	var numbers []string
	for _, b := range raw[:4] {
		numbers = append(numbers, fmt.Sprint(b))
	}
	for _, secret := range []string{string(raw[:8]), hex.EncodeToString(raw[:4]), strings.ToUpper(hex.EncodeToString(raw[10:16])),
		strings.Join(numbers, " "), strings.Join(numbers, ","), strings.Join(numbers, ", "), "0x30, 0x31", base64.StdEncoding.EncodeToString(raw[:9])} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is in what was printed:\n%s", secret, out.String())
		}
	}
	if got := fmt.Sprintf("%+v", p); got != staticName {
		t.Errorf("printed as %q", got)
	}
}

func writeKeys(t *testing.T, perm os.FileMode, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), perm); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, perm); err != nil {
		t.Fatal(err)
	}
	return path
}

func keyLine(name string, b byte) string {
	return name + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, masterSize))
}

func TestKeyFile(t *testing.T) {
	path := writeKeys(t, 0o600, "# keys", "", keyLine("old", 1))
	p := KeyFile(path)
	key, binding := bytes.Repeat([]byte{8}, 32), []byte("binding")
	one, err := p.WrapKey(t.Context(), key, binding)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(keyLine("old", 1)+"\r\n  "+keyLine("new", 2)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	two, err := p.WrapKey(t.Context(), key, binding)
	if err != nil || !strings.HasPrefix(string(one), "\x03old") || !strings.HasPrefix(string(two), "\x03new") {
		t.Fatalf("%q, %q, %v", one[:4], two[:4], err)
	}
	for _, wrapped := range [][]byte{one, two} {
		if got, err := p.UnwrapKey(t.Context(), wrapped, binding); err != nil || !bytes.Equal(got, key) {
			t.Errorf("%x, %v", got, err)
		}
		for n := range wrapped {
			if _, err := p.UnwrapKey(t.Context(), wrapped[:n], binding); err == nil {
				t.Fatalf("cut to %d bytes: accepted", n)
			}
		}
	}
	// A line that was renamed stands for another key.
	two[1] = 'x'
	if _, err := p.UnwrapKey(t.Context(), two, binding); err == nil {
		t.Error("an unknown name: accepted")
	}
}

// TestAppendMasterKey: the new key is the current one, older ones stay, and what is wrong with the
// file is said before anything is written.
func TestAppendMasterKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	p := KeyFile(path)
	var wrapped [][]byte
	for _, name := range []string{"one", "two"} {
		if err := AppendMasterKey(path, name); err != nil {
			t.Fatal(err)
		}
		w, err := p.WrapKey(t.Context(), make([]byte, 32), nil)
		if err != nil || string(w[1:4]) != name {
			t.Fatalf("%q, %v", w, err)
		}
		wrapped = append(wrapped, w)
	}
	for _, w := range wrapped {
		if _, err := p.UnwrapKey(t.Context(), w, nil); err != nil {
			t.Error(err)
		}
	}
	// A line without an end is not continued.
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.TrimRight(text, "\n"), 0o600)
	}
	if err = errors.Join(err, AppendMasterKey(path, "three")); err != nil {
		t.Fatal(err)
	}
	if keys, err := readKeyFile(path); err != nil || len(keys) != 3 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, name := range []string{"one", "", "a b", "#", "a\n", strings.Repeat("n", 256)} {
		before, _ := os.ReadFile(path)
		err := AppendMasterKey(path, name)
		after, _ := os.ReadFile(path)
		if err == nil || !bytes.Equal(before, after) {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

// TestBadKeyFiles: errors say the line, and never what it holds.
func TestBadKeyFiles(t *testing.T) {
	secret := "c2VjcmV0c2VjcmV0"
	for name, path := range map[string]string{
		"empty":      writeKeys(t, 0o600, "# nothing"),
		"passphrase": writeKeys(t, 0o600, secret),
		"words":      writeKeys(t, 0o600, "a b "+secret),
		"short":      writeKeys(t, 0o600, "a "+secret),
		"no base64":  writeKeys(t, 0o600, "a "+secret+"!"),
		"twice":      writeKeys(t, 0o600, keyLine("a", 1), keyLine("a", 2)),
		"long name":  writeKeys(t, 0o600, keyLine(strings.Repeat("n", 256), 1)),
		"long":       writeKeys(t, 0o600, strings.Repeat("#\n", maxKeyFile)),
		"directory":  t.TempDir(),
		"missing":    filepath.Join(t.TempDir(), "keys"),
	} {
		_, err := KeyFile(path).WrapKey(t.Context(), make([]byte, 32), nil)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	for perm, want := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o700: true, 0o640: false, 0o604: false, 0o620: false, 0o601: false} {
		_, err := KeyFile(writeKeys(t, perm, keyLine("a", 1))).WrapKey(t.Context(), make([]byte, 32), nil)
		if (err == nil) != want {
			t.Errorf("permissions %#o: %v", perm, err)
		}
	}
}

func FuzzKeyFile(f *testing.F) {
	corpus.Add(f, []byte(keyLine("a", 1)+"\n# x\n"), []byte("\x01a"))
	f.Fuzz(func(t *testing.T, text, wrapped []byte) {
		keys, err := parseKeyFile("file", text)
		if err == nil && len(keys) == 0 {
			t.Error("neither keys nor an error")
		}
		for _, k := range keys {
			if len(k.key) != masterSize || len(k.name) > maxKeyName {
				t.Errorf("%q", k.name)
			}
			if _, err := newStaticKey(k.key).UnwrapKey(t.Context(), wrapped, nil); err == nil {
				t.Error("accepted")
			}
		}
	})
}

// knownWrapped was made by the first release that wraps keys.
const knownWrapped = "180db2370950fd6e94d364a3bfeaaf28aae6616221dc0dd1eb0ec8fdf56af0ae" +
	"b4b499ac123c8e97059c71ddd50a7917b8a513dbbb13970b411a2da52016eb3c"
