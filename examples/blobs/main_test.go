package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// someContent is longer than two parts.
var someContent = bytes.Repeat([]byte("0123456789abcdef"), 150_000)

// command runs one command, and returns what it prints.
func command(t *testing.T, dir string, in string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), append([]string{"-dir", dir}, args...), strings.NewReader(in), &out)
	return out.String(), err
}

// TestCommands stores files, lists them, reads them back and deletes them, each in an opening of
// its own.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	store, file := filepath.Join(dir, "store"), filepath.Join(dir, "file.html")
	if err := os.WriteFile(file, someContent, 0o600); err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(someContent))
	small := fmt.Sprintf("%x", sha256.Sum256([]byte("small")))
	expect := func(want string, in string, args ...string) {
		t.Helper()
		got, err := command(t, store, in, args...)
		if err != nil || got != want {
			t.Errorf("%q: %.200q, %v; want %.200q", args, got, err, want)
		}
	}
	stored := fmt.Sprintln(digest, len(someContent))
	expect(stored+stored+fmt.Sprintln(small, 5), "small", "put", file, file, "-")
	list := []string{fmt.Sprintln(digest, len(someContent), 2, "text/html; charset=utf-8"), fmt.Sprintln(small, 5, 1, "")}
	if small < digest {
		list[0], list[1] = list[1], list[0]
	}
	expect(list[0]+list[1], "", "list")
	expect(string(someContent), "", "get", digest)
	expect("small", "", "get", small)
	expect(fmt.Sprintln(digest, 1)+fmt.Sprintln(small, 0), "", "delete", digest, small)
	expect(fmt.Sprintln(digest, 0), "", "delete", digest)
	expect("", "", "list")
	for _, args := range [][]string{{}, {"get"}, {"put"}, {"get", digest}, {"get", "x"}, {"delete", digest}, {"put", filepath.Join(dir, "absent")}, {"fly"}} {
		if got, err := command(t, store, "", args...); err == nil {
			t.Errorf("%q: %q and no error", args, got)
		}
	}
}

// TestServer does over HTTP what TestCommands does, and asks for ranges.
func TestServer(t *testing.T) {
	s, err := openShelf(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.db.Close()
	server := httptest.NewServer(s.handler())
	defer server.Close()
	do := func(method, path string, body io.Reader, header ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		got, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return got, string(text)
	}
	expect := func(status int, want, method, path string, body io.Reader, header ...string) *http.Response {
		t.Helper()
		got, text := do(method, path, body, header...)
		if got.StatusCode != status || text != want {
			t.Errorf("%s %s: %d %.200q, want %d %.200q", method, path, got.StatusCode, text, status, want)
		}
		return got
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(someContent))
	stored := fmt.Sprintln(digest, len(someContent))
	got := expect(http.StatusCreated, stored, "POST", "/", bytes.NewReader(someContent), "Content-Type", "text/plain")
	at := got.Header.Get("Location")
	if at != "/"+digest {
		t.Errorf("it is at %q", at)
	}
	// Without a length.
	expect(http.StatusCreated, stored, "POST", "/", io.MultiReader(bytes.NewReader(someContent)))
	expect(http.StatusOK, fmt.Sprintln(digest, len(someContent), 2, "text/plain"), "GET", "/", nil)
	got = expect(http.StatusOK, string(someContent), "GET", at, nil)
	if typ := got.Header.Get("Content-Type"); typ != "text/plain" {
		t.Errorf("its type is %q", typ)
	}
	expect(http.StatusPartialContent, string(someContent[1<<20-3:1<<20+5]), "GET", at, nil, "Range", "bytes=1048573-1048580")
	expect(http.StatusNotModified, "", "GET", at, nil, "If-None-Match", `"`+digest+`"`)
	expect(http.StatusOK, fmt.Sprintln(digest, 1), "DELETE", at, nil)
	expect(http.StatusOK, fmt.Sprintln(digest, 0), "DELETE", at, nil)
	for _, method := range []string{"GET", "DELETE"} {
		if got, _ := do(method, at, nil); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s of what is deleted: %d", method, got.StatusCode)
		}
		if got, _ := do(method, "/x", nil); got.StatusCode != http.StatusBadRequest {
			t.Errorf("%s of no digest: %d", method, got.StatusCode)
		}
	}
}

// TestServeEnds serves until its context ends.
func TestServeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-dir", t.TempDir(), "-addr", "127.0.0.1:0", "serve"}, nil, in)
		in.Close()
	}()
	var url string
	if _, err := fmt.Fscanf(out, "serving %s\n", &url); err != nil {
		t.Fatal(err)
	}
	got, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
