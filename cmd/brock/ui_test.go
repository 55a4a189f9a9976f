package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/brockdb/brock"
)

// page is a process that serves a page.
type page struct {
	t   *testing.T
	cmd *exec.Cmd
	url *url.URL
}

// servePage starts brock ui.
func servePage(t *testing.T, dir string, args ...string) *page {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a follower, and a signal that ends a process")
	}
	cmd := process(t, dir, append([]string{"ui"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("brock ui printed %q: %v", line, err)
	}
	at, err := url.Parse(strings.TrimSpace(line))
	if err != nil || at.Scheme != "http" || at.Hostname() != "127.0.0.1" || len(at.Path) < 20 {
		t.Fatalf("brock ui printed %q: %v", line, err)
	}
	return &page{t, cmd, at}
}

// ask sends a request for a path below the token, changed by the functions.
func (p *page) ask(method, path string, change ...func(*http.Request)) (int, string) {
	p.t.Helper()
	r, err := http.NewRequest(method, p.url.String()+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, fn := range change {
		fn(r)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if cors := res.Header.Get("Access-Control-Allow-Origin"); cors != "" {
		p.t.Errorf("%s %s: another origin may read the answer: %s", method, path, cors)
	}
	return res.StatusCode, string(body)
}

// check fails unless the answer has a status and a text.
func (p *page) check(status int, text, method, path string, change ...func(*http.Request)) {
	p.t.Helper()
	if got, body := p.ask(method, path, change...); got != status || !strings.Contains(body, text) {
		p.t.Errorf("%s %s: %d %.200q, want %d %q", method, path, got, body, status, text)
	}
}

func TestPageNeedsItsTokenAndItsHost(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "set", "store", "k", "v")
	p := servePage(t, dir, "store")
	host := func(name string) func(*http.Request) {
		return func(r *http.Request) { r.Host = name }
	}
	path := func(path string) func(*http.Request) {
		return func(r *http.Request) { r.URL.Path = path }
	}
	p.check(http.StatusOK, "<!doctype html>", "GET", "")
	p.check(http.StatusOK, `"title":"store"`, "GET", "state")
	p.check(http.StatusOK, "", "GET", "state", host("localhost:"+p.url.Port()))
	for _, name := range []string{"evil.example:" + p.url.Port(), "127.0.0.1", "127.0.0.1:1", "evil.example", "", "localhost.evil.example:" + p.url.Port(), "[::1]:" + p.url.Port()} {
		if name != "" { // an empty one is replaced by that of the address
			p.check(http.StatusMisdirectedRequest, "not the host", "GET", "state", host(name))
		}
	}
	token := strings.Trim(p.url.Path, "/")
	for _, wrong := range []string{"/", "/state", "/" + token, "/" + strings.ToLower(token) + "x/state", "/" + token[1:] + "/state", "//state", "/" + token + "x/"} {
		p.check(http.StatusNotFound, "the address is wrong", "GET", "", path(wrong))
	}
	// An action needs the token, and a page of the same origin.
	act := func(r *http.Request) { r.Header.Set("X-Brock-Action", "1") }
	p.check(http.StatusOK, `"done":"verify"`, "POST", "action?do=verify", act)
	p.check(http.StatusForbidden, "foreign", "POST", "action?do=verify")
	p.check(http.StatusForbidden, "foreign", "POST", "action?do=verify", act, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") })
	p.check(http.StatusNotFound, "the address is wrong", "POST", "", act, path("/action"))
	p.check(http.StatusConflict, "readonly", "POST", "action?do=compact", act)
}

func TestPageFollowsAStoreInUse(t *testing.T) {
	dir := t.TempDir()
	db, err := brock.Open(brock.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p := servePage(t, dir, "store")
	if err := db.Set([]byte("later"), []byte(strings.Repeat("x", 5000))); err != nil {
		t.Fatal(err)
	}
	var keys struct{ Keys []struct{ Size int } }
	_, body := p.ask("GET", "keys")
	if err := json.Unmarshal([]byte(body), &keys); err != nil || len(keys.Keys) != 1 || keys.Keys[0].Size != 5000 {
		t.Errorf("%v %s", err, body)
	}
	p.check(http.StatusOK, `"mode":"Follow"`, "GET", "state")
	p.check(http.StatusOK, `"data":"`, "GET", "value?key=bGF0ZXI")
	// What the manifest says of the files is there, too.
	for i := range 100 {
		if err := db.Set([]byte{byte(i)}, []byte(strings.Repeat("x", 5000))); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteRange([]byte{0}, []byte{10}); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	var files struct {
		Total struct{ Dead int64 }
		Files []struct{ Name, Kind, Use string }
	}
	_, body = p.ask("GET", "files")
	if err := json.Unmarshal([]byte(body), &files); err != nil || files.Total.Dead < 50000 || len(files.Files) < 4 {
		t.Errorf("%v %s", err, body)
	}
	for _, f := range files.Files {
		if f.Use == "" && (f.Kind == "run" || f.Kind == "value") {
			t.Errorf("nothing is said of %s", f.Name)
		}
	}
}

func TestPageLetsOthersOpenTheStore(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "keygen", "keys")
	must(t, dir, "", "set", "store", "k", "v", "--key-file=keys")
	p := servePage(t, dir, "store", "--key-file=keys", "--no-values")
	p.check(http.StatusOK, `"encrypted":true`, "GET", "state")
	p.check(http.StatusForbidden, "hidden", "GET", "value?key=aw")
	must(t, dir, "", "set", "store", "l", "v", "--key-file=keys")
	p.check(http.StatusOK, `"key":"bA"`, "GET", "keys") // the new key
}

// Ctrl-C ends the command at once, also while a page is open.
func TestPageEndsWhenInterrupted(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "", "set", "store", "k", "v")
	p := servePage(t, dir, "store")
	res, err := http.Get(p.url.String() + "live")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || line != "event: state\n" {
		t.Fatalf("%q %v", line, err)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("brock ui ended with %v", err)
	}
}

func TestPageOfNoStore(t *testing.T) {
	dir := t.TempDir()
	for code, args := range map[int][]string{exitFailed: {"ui", "none"}, exitUsage: {"ui", "none", "--port=65536"}} {
		if r := brockIn(t, dir, "", args...); r.code != code || r.err == "" {
			t.Errorf("%v: %+v, want code %d", args, r, code)
		}
	}
}
