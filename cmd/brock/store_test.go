package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/test/kit/draw"
)

func TestForeignDirectory(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "photos/SUPER", strings.Repeat("not a store\n", 1000))
	for _, args := range [][]string{{"set", "photos", "k", "v"}, {"get", "photos", "k"}, {"verify", "photos"}} {
		r := brockIn(t, dir, "", args...)
		if r.code != exitFailed || !strings.Contains(r.err, "photos: not a Brock store: another program has written its SUPER") {
			t.Errorf("brock %v: exit code %d, %s", args, r.code, r.err)
		}
	}
	if content, err := os.ReadFile(filepath.Join(dir, "photos/SUPER")); err != nil || !strings.HasPrefix(string(content), "not a store") {
		t.Errorf("the file was changed: %v", err)
	}
}

func TestStoreInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	db, err := brock.Open(brock.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"set", dir, "k", "v"}, {"del", dir, "k"}, {"load", dir, "-"}} {
		if r := brockIn(t, "", "", args...); r.code != exitInUse || !strings.Contains(r.err, "in use by") {
			t.Errorf("brock %v: exit code %d, %s", args, r.code, r.err)
		}
	}
	for i := range 3 {
		value := strings.Repeat("v", 1+i*1000)
		if err := db.Set([]byte("k"), []byte(value)); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"get", dir, "k"}, {"scan", dir}, {"count", dir}, {"stats", dir}, {"verify", dir}, {"keyspaces", "list", dir}, {"history", dir, "k"}, {"tree", dir}, {"dump", dir, "-"},
		} {
			r := brockIn(t, "", "", args...)
			if runtime.GOOS == "linux" && r.code != exitOK || !strings.Contains(r.err, "in use by pid "+strconv.Itoa(os.Getpid())) {
				t.Errorf("brock %v: exit code %d, %s", args, r.code, r.err)
			}
			if args[0] == "stats" && r.code == exitOK && !strings.Contains(r.out, "live, 0 B dead, beside the journal") {
				t.Errorf("stats says %s", r.out)
			}
			if args[0] == "get" && r.code == exitOK && r.out != value {
				t.Errorf("brock get: %.20q, want %.20q", r.out, value)
			}
		}
		if i == 1 {
			if err := db.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if r := brockIn(t, "", "", "get", dir, "none"); r.code != exitNotFound || strings.Contains(r.err, "in use") {
		t.Errorf("after Close: exit code %d, %s", r.code, r.err)
	}
}

// makeStore makes a store with a run, and segments with values, flushed and not.
func makeStore(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "s")
	db, err := brock.Open(brock.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := db.Set(fmt.Appendf(nil, "key %03d", i), []byte(strings.Repeat("value ", i*10))); err != nil {
			t.Fatal(err)
		}
		if i == 150 {
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestVerifyNamesDamage flips a byte in the middle of each file that holds data.
func TestVerifyNamesDamage(t *testing.T) {
	dir := makeStore(t)
	if out := must(t, "", "", "verify", dir); !strings.Contains(out, "is right") {
		t.Fatal(out)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	tried := make(map[filename.Kind]bool)
	for _, e := range entries {
		name, ok := filename.Parse(e.Name())
		path := filepath.Join(dir, e.Name())
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !ok || name.Kind == filename.Super || len(content) == 0 {
			continue
		}
		tried[name.Kind] = true
		damaged := append([]byte(nil), content...)
		damaged[len(damaged)/2] ^= 1
		writeFile(t, dir, e.Name(), string(damaged))
		r := brockIn(t, "", "", "verify", "--json", dir)
		var found problem
		line, rest, _ := strings.Cut(r.out, "\n")
		if err := json.Unmarshal([]byte(line), &found); err != nil || r.code != exitCorrupt ||
			found.File != e.Name() || found.Offset < 0 || found.Offset > int64(len(content)/2) || !strings.Contains(rest, `"problems":`) {
			t.Errorf("byte %d of %s: exit code %d, %v, %s%s", len(content)/2, e.Name(), r.code, err, r.out, r.err)
		}
		if r := brockIn(t, "", "", "verify", dir); r.code != exitCorrupt || !strings.Contains(r.out, e.Name()) {
			t.Errorf("%s: exit code %d, %s", e.Name(), r.code, r.out)
		}
		writeFile(t, dir, e.Name(), string(content))
	}
	if !tried[filename.Journal] || !tried[filename.Run] || !tried[filename.Manifest] {
		t.Errorf("only %v were there", tried)
	}
}

// TestDumpOfDamage: a dump of a damaged store fails and leaves no file. What can be read of the
// store comes from a salvaged copy.
func TestDumpOfDamage(t *testing.T) {
	dir := makeStore(t)
	runs, err := filepath.Glob(filepath.Join(dir, "*.run"))
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	content, err := os.ReadFile(runs[0])
	if err != nil {
		t.Fatal(err)
	}
	content[3000] ^= 1
	writeFile(t, dir, filepath.Base(runs[0]), string(content))
	file := filepath.Join(t.TempDir(), "all.jsonl")
	if r := brockIn(t, "", "", "dump", dir, file); r.code != exitCorrupt {
		t.Errorf("exit code %d, %s", r.code, r.err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Error("a dump that failed has left its file")
	}
	saved := filepath.Join(t.TempDir(), "saved")
	if r := brockIn(t, "", "", "salvage", dir, saved); r.code != exitCorrupt {
		t.Errorf("exit code %d, %s", r.code, r.err)
	}
	r := brockIn(t, "", "", "dump", saved, file)
	lines, err := os.ReadFile(file)
	if n := strings.Count(string(lines), "\n"); err != nil || r.code != exitOK || n < 49 || n >= 200 {
		t.Errorf("exit code %d, %d lines, %v, %s", r.code, n, err, r.err)
	}
	if out := brockIn(t, "", "", "verify", dir).out; !strings.Contains(out, `keys: `) {
		t.Error(out)
	}
}

// TestRecover: a store whose journal is damaged shows what lies before that, and verify
// names the way.
func TestRecover(t *testing.T) {
	dir := makeStore(t)
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	last := logs[len(logs)-1]
	content, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	writeFile(t, dir, filepath.Base(last), string(content))
	if r := brockIn(t, "", "", "count", dir); r.code != exitCorrupt {
		t.Errorf("exit code %d, %s", r.code, r.err)
	}
	r := brockIn(t, "", "", "count", "--recover", dir)
	var n int
	if _, err := fmt.Sscan(r.out, &n); err != nil || r.code != exitOK || n < 151 || n >= 200 || !strings.Contains(r.err, "from before the damage") {
		t.Errorf("exit code %d, %q, %v, %s", r.code, r.out, err, r.err)
	}
	if r := brockIn(t, "", "", "verify", dir); r.code != exitCorrupt || !strings.Contains(r.err, "--recover") {
		t.Errorf("verify: exit code %d, %s", r.code, r.err)
	}
	if r := brockIn(t, "", "", "set", "--recover", dir, "a", "b"); r.code != exitUsage {
		t.Errorf("set: exit code %d, %s", r.code, r.err)
	}
}

func TestGetFromDamagedStore(t *testing.T) {
	dir := makeStore(t)
	path := filepath.Join(dir, filename.Of(filename.Super, 0))
	if err := os.WriteFile(path, []byte("BROCKSUP"+strings.Repeat("?", 8184)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := brockIn(t, "", "", "get", dir, "key 001"); r.code != exitCorrupt || !strings.Contains(r.err, "SUPER") {
		t.Errorf("exit code %d, %s", r.code, r.err)
	}
	if r := brockIn(t, "", "", "verify", dir); r.code != exitCorrupt || !strings.Contains(r.err, "brock salvage") {
		t.Errorf("verify: exit code %d, %s", r.code, r.err)
	}
}

// TestInspectShowsEveryFile: each byte of each file is shown, in one line or another.
func TestInspectShowsEveryFile(t *testing.T) {
	dir := makeStore(t)
	want := map[filename.Kind]string{
		filename.Super:    "magic",
		filename.Manifest: "addRun",
		filename.Journal:  `key = "\x00key 1`,
		filename.Run:      "separated",
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name, _ := filename.Parse(e.Name())
		out := must(t, dir, "", "inspect", e.Name())
		if !strings.Contains(out, want[name.Kind]) {
			t.Errorf("inspect %s does not show %s", e.Name(), want[name.Kind])
		}
	}
	writeFile(t, dir, "photo.jpg", "x")
	if r := brockIn(t, dir, "", "inspect", "photo.jpg"); r.code != exitUsage {
		t.Errorf("a photo: exit code %d", r.code)
	}
}

// TestInspectEncryptedRun: a run of an encrypted store is shown as a plain one to those who have the
// keys, if the keyring lies beside it. Else its ends are, and what is missing is said.
func TestInspectEncryptedRun(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"keygen", "keys"}, {"keygen", "others"}, {"set", "store", "a-key", "a-value", "--key-file=keys"}, {"rekey", "store", "--key-file=keys", "--rewrite"}} {
		must(t, dir, "", args...)
	}
	runs, err := filepath.Glob(filepath.Join(dir, "store", "*.run"))
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	file := filepath.Join("store", filepath.Base(runs[0]))
	if out := must(t, dir, "", "inspect", file, "--key-file=keys"); !strings.Contains(out, `first key = "\x00a-key"`) {
		t.Errorf("no pair in\n%s", out)
	}
	content, err := os.ReadFile(runs[0])
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Base(file)
	writeFile(t, dir, alone, string(content))
	for _, c := range []struct {
		want string
		args []string
	}{
		{file + " is encrypted: name its key file by --key-file or BROCK_KEY_FILE", []string{file}},
		{"must lie beside the keyring of its store", []string{alone, "--key-file=keys"}},
		{"wrong or missing key", []string{file, "--key-file=others"}},
	} {
		r := brockIn(t, dir, "", append([]string{"inspect"}, c.args...)...)
		if r.code != exitFailed || !strings.Contains(r.err, c.want) || !strings.Contains(r.out, "tag of the footer") || strings.Contains(r.out, "a-key") {
			t.Errorf("%q: exit code %d, %s\n%s", c.args, r.code, r.err, r.out)
		}
	}
}

func TestStats(t *testing.T) {
	dir := makeStore(t)
	var s stats
	if err := json.Unmarshal([]byte(must(t, "", "", "stats", dir, "--json")), &s); err != nil {
		t.Fatal(err)
	}
	if s.Version != 200 || s.RunEntries != 151 || s.Unflushed != 49 || s.Files["run"].Count != 1 || s.Files["run"].Bytes == 0 || len(s.UUID) != 32 {
		t.Errorf("%+v", s)
	}
	if out := must(t, "", "", "stats", dir); !strings.Contains(out, "151 in 1 run, 49 only in the journal") {
		t.Error(out)
	}
	if err := json.Unmarshal([]byte(must(t, "", "", "stats", dir, "--json", "--files")), &s); err != nil || len(s.EachFile) < 2 || s.EachFile[0].Kind != "run" || s.EachFile[0].Entries != 151 {
		t.Errorf("%v %+v", err, s.EachFile)
	}
	if out := must(t, "", "", "stats", dir, "--files"); !strings.Contains(out, ".run run ") || !strings.Contains(out, ": 151 entries, versions ") {
		t.Error(out)
	}
}

// TestStatsCountsFilesOnce: --value-dir may name the directory of the store.
func TestStatsCountsFilesOnce(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "set", "s", "k", "v")
	files := func(args ...string) map[string]fileSums {
		var s stats
		if err := json.Unmarshal([]byte(must(t, dir, "", append([]string{"stats", "s", "--json"}, args...)...)), &s); err != nil {
			t.Fatal(err)
		}
		return s.Files
	}
	want := files()
	for _, same := range []string{"s", "./s/"} {
		if got := files("--value-dir", same); !maps.Equal(got, want) {
			t.Errorf("--value-dir=%s: %v, want %v", same, got, want)
		}
	}
}

// TestStatsOfAnEncryptedStore: stats takes the key file as other commands do, and --recover.
func TestStatsOfAnEncryptedStore(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "keygen", "key-file")
	must(t, dir, "", "set", "s", "k", "v", "--key-file=key-file")
	if r := brockIn(t, dir, "", "stats", "s"); r.code != exitFailed || !strings.Contains(r.err, "s is encrypted: name its key file") {
		t.Errorf("without keys: exit code %d, %s", r.code, r.err)
	}
	if out := must(t, dir, "", "stats", "s", "--key-file=key-file"); !strings.Contains(out, "1 only in the journal") || !strings.Contains(out, "keyring ") {
		t.Error(out)
	}
	if out := must(t, dir, "", "stats", "s", "--key-file=key-file", "--watch", "--interval=10ms", "--count=1"); !strings.Contains(out, "1 entries") {
		t.Error(out)
	}
	if out := must(t, dir, "", "stats", "s", "--key-file=key-file", "--recover"); !strings.Contains(out, "1 only in the journal") {
		t.Error(out)
	}
	if r := brockIn(t, dir, "", "stats", "s", "--watch", "--recover"); r.code != exitUsage {
		t.Errorf("--watch --recover: exit code %d, %s", r.code, r.err)
	}
}

func TestValueDir(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "set", "keys", "k", "v", "--value-dir=values")
	if got := must(t, dir, "", "get", "keys", "k", "--value-dir=values"); got != "v" {
		t.Errorf("k is %q", got)
	}
	var s stats
	if err := json.Unmarshal([]byte(must(t, dir, "", "stats", "keys", "--value-dir=values", "--json")), &s); err != nil {
		t.Fatal(err)
	}
	if s.Files["journal"].Count != 1 || s.Files["super"].Count != 2 || s.Files["lock"].Count != 2 {
		t.Errorf("%+v", s)
	}
}

// fuzzer draws keys, values and names that trip parsers.
type fuzzer struct{ *rand.Rand }

func newFuzzer(t *testing.T) fuzzer {
	seed := draw.Seed(t)
	t.Logf("seed %d", seed)
	return fuzzer{rand.New(rand.NewPCG(seed, 0))}
}

func (f fuzzer) text(n int) (s []byte) {
	alphabet := []string{"a", "b", "\"", ",", "\t", "\n", "\r", "\r\n", "\\", "é", "\uFFFD", "\uFEFF", "\xff", "\x00", " ", "=", "<", "\u2028", "key", "value", "null"}
	for range n {
		s = append(s, alphabet[f.IntN(len(alphabet))]...)
	}
	return s
}

// fill writes random pairs in one commit; nil is the default keyspace.
func (f fuzzer) fill(t *testing.T, db *brock.DB, ks *brock.Keyspace, n int) {
	t.Helper()
	err := db.Update(func(txn *brock.Txn) error {
		for range n {
			e := brock.NewEntry(f.text(1+f.IntN(5)), f.text(f.IntN(40)))
			if f.IntN(4) == 0 {
				e.WithMeta(byte(f.IntN(256))).WithTTL(1e18)
			}
			if err := txn.In(ks).SetEntry(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRoundTrip dumps random pairs in each format, loads them, and dumps again.
func TestRoundTrip(t *testing.T) {
	f := newFuzzer(t)
	dir := t.TempDir()
	db, err := brock.Open(brock.Options{Dir: filepath.Join(dir, "s"), Durability: brock.Buffered})
	if err != nil {
		t.Fatal(err)
	}
	f.fill(t, db, nil, 500)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	want := must(t, dir, "", "dump", "s")
	if n := strings.Count(want, "\n"); n < 100 {
		t.Fatalf("only %d pairs", n)
	}
	for _, format := range []string{"jsonl", "csv", "tsv"} {
		must(t, dir, "", "dump", "s", "all."+format)
		must(t, dir, "", "load", format, "all."+format)
		if got := must(t, dir, "", "dump", format); got != want {
			t.Errorf("%s: %s", format, firstDifference(got, want))
		}
	}
}

// TestRoundTripOfKeyspaces does so with keyspaces of any name and options.
func TestRoundTripOfKeyspaces(t *testing.T) {
	f := newFuzzer(t)
	dir := t.TempDir()
	db, err := brock.Open(brock.Options{Dir: filepath.Join(dir, "s"), Durability: brock.Buffered})
	if err != nil {
		t.Fatal(err)
	}
	f.fill(t, db, nil, 50)
	for i := range 20 {
		o := brock.KeyspaceOptions{ValueThreshold: f.IntN(2000) - 1, Compression: brock.Compression(1 + f.IntN(3)), CompressAbove: f.IntN(100),
			Versions: brock.Retention{Versions: f.IntN(5), Age: time.Duration(f.IntN(1e9)) * time.Millisecond}}
		ks, err := db.Keyspace(string(f.text(1+f.IntN(9)))+string(rune('a'+i)), o)
		if err != nil {
			t.Fatal(err)
		}
		f.fill(t, db, ks, f.IntN(100))
		if o.TTL = time.Duration(f.IntN(2)) * (time.Hour + time.Duration(f.IntN(1e6))*time.Millisecond); o.TTL > 0 {
			if err := ks.SetOptions(o); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	want := must(t, dir, "", "dump", "s")
	must(t, dir, want, "load", "copy", "-")
	if got := must(t, dir, "", "dump", "copy"); got != want {
		t.Error(firstDifference(got, want))
	}
	if got, want := must(t, dir, "", "keyspaces", "copy", "--json"), must(t, dir, "", "keyspaces", "s", "--json"); got != want || strings.Count(want, "\n") != 20 {
		t.Errorf("keyspaces %s\nwant %s", got, want)
	}
}

func firstDifference(got, want string) string {
	g, w := bufio.NewScanner(strings.NewReader(got)), bufio.NewScanner(strings.NewReader(want))
	for g.Scan() && w.Scan() {
		if g.Text() != w.Text() {
			break
		}
	}
	return fmt.Sprintf("got %s, want %s", g.Text(), w.Text())
}

// watchFollowed commits to a store while the command shows it: later screens are of newer
// versions, and all have the entries that are in memory only.
func watchFollowed(t *testing.T, dir string, db *brock.DB) {
	if err := db.Set([]byte("watched"), nil); err != nil {
		t.Fatal(err)
	}
	const screens = 20
	r := process(t, "", "stats", dir, "--watch", "--interval=50ms", fmt.Sprint("--count=", screens))
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	r.Stderr = &told
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var shown []byte
	go func() {
		shown, _ = io.ReadAll(out)
		close(ended)
	}()
	for n, over := 0, false; !over; n++ {
		if err := db.Set(fmt.Appendf(nil, "watched %d", n), nil); err != nil {
			t.Error(err)
			break
		}
		select {
		case <-ended:
			over = true
		case <-time.After(time.Millisecond):
		}
	}
	<-ended
	err = r.Wait()
	if runtime.GOOS != "linux" && err != nil {
		if !strings.Contains(told.String(), "can't be followed here") {
			t.Errorf("%v, %s", err, told.String())
		}
		return
	}
	if err != nil || !strings.Contains(told.String(), "in use by pid "+strconv.Itoa(os.Getpid())) {
		t.Errorf("%v, %s", err, told.String())
	}
	commits := regexp.MustCompile(`(?m)^commits    ([0-9,]+) commits/s; version ([0-9,]+)$`).FindAllSubmatch(shown, -1)
	entries := regexp.MustCompile(`(?m)^memtables  1 with [1-9][0-9,]* entries, `).FindAll(shown, -1)
	if len(commits) != screens || len(entries) != screens || bytes.Equal(commits[0][2], commits[screens-1][2]) {
		t.Fatalf("%s", shown)
	}
	if !slices.ContainsFunc(commits, func(c [][]byte) bool { return string(c[1]) != "0" }) {
		t.Errorf("no rates of commits: %s", shown)
	}
}

// TestWatch shows a store that the command opens, one that another process has open, and
// one whose process publishes its metrics.
func TestWatch(t *testing.T) {
	dir := makeStore(t)
	out := must(t, "", "", "stats", dir, "--watch", "--interval=10ms", "--count=2")
	if strings.Count(out, "segments ") != 2 || !strings.Contains(out, "49 entries") {
		t.Error(out)
	}
	db, err := brock.Open(brock.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"brock": db.Metrics()})
	}))
	defer server.Close()
	if out := must(t, "", "", "stats", server.URL, "--watch", "--interval=10ms", "--count=1"); !strings.Contains(out, "49 entries") {
		t.Error(out)
	}
	for _, args := range [][]string{{"stats", dir, "--watch", "--json"}, {"stats", dir, "--watch", "--interval=1ms"}, {"stats", dir, "--watch", "--count=-1"}} {
		if r := brockIn(t, "", "", args...); r.code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, r.code, r.err)
		}
	}
	if r := brockIn(t, t.TempDir(), "", "stats", "nowhere", "--watch"); r.code != exitFailed || !strings.Contains(r.err, "no store in nowhere") {
		t.Errorf("no store: exit code %d, %s", r.code, r.err)
	}
	watchFollowed(t, dir, db)
}

// TestVerifyNamesASlotOfSuper: each of the two slots is verified, also of a store that is only read.
func TestVerifyNamesASlotOfSuper(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // each session writes the other slot
		must(t, dir, "", "set", "s", "a", "1")
	}
	super := filepath.Join(dir, "s/SUPER")
	sound, err := os.ReadFile(super)
	if err != nil {
		t.Fatal(err)
	}
	for slot := range 2 {
		damaged := bytes.Clone(sound)
		damaged[slot*len(sound)/2+50] ^= 1
		if err := os.WriteFile(super, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		r := brockIn(t, dir, "", "verify", "s")
		if want := fmt.Sprintf("SUPER at %d:", slot*len(sound)/2); r.code != exitCorrupt || strings.Count(r.out, "\n") != 1 || !strings.Contains(r.out, want) {
			t.Errorf("slot %d: exit code %d, %s%s", slot, r.code, r.out, r.err)
		}
	}
}
