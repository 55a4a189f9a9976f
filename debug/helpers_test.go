package debug_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// openStore opens a store that is closed when the test ends.
func openStore(t testing.TB, o brock.Options) *brock.DB {
	t.Helper()
	if o.Dir == "" && !o.InMemory {
		o.Dir = t.TempDir()
	}
	o.Durability = brock.Buffered
	db, err := brock.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func set(t testing.TB, ks interface{ Set(key, value []byte) error }, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if err := ks.Set([]byte(pairs[i]), []byte(pairs[i+1])); err != nil {
			t.Fatal(err)
		}
	}
}

func makeKeyspace(t testing.TB, db *brock.DB, name string, o ...brock.KeyspaceOptions) *brock.Keyspace {
	t.Helper()
	ks, err := db.Keyspace(name, o...)
	if err != nil {
		t.Fatal(err)
	}
	return ks
}

// b64 is how keys and names stand in requests and answers.
func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func unb64(t testing.TB, s string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ask sends a GET to a handler that is mounted at /debug/brock/, and decodes the answer into v.
func ask(t testing.TB, h http.Handler, path string, v any) (status int) {
	t.Helper()
	return request(t, h, httptest.NewRequest(http.MethodGet, "/debug/brock/"+path, nil), v)
}

func request(t testing.TB, h http.Handler, r *http.Request, v any) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Fatalf("%s: Content-Type %q, status %d: %s", r.URL, got, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		t.Fatalf("%s: %v: %s", r.URL, err, w.Body)
	}
	return w.Code
}

// need is ask for an answer that must be there.
func need(t testing.TB, h http.Handler, path string, v any) {
	t.Helper()
	var raw json.RawMessage
	if status := ask(t, h, path, &raw); status != http.StatusOK {
		t.Fatalf("%s: status %d: %s", path, status, raw)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatalf("%s: %v: %s", path, err, raw)
	}
}

// refuse asks for something that must fail with a status and a code.
func refuse(t testing.TB, h http.Handler, path string, status int, code string) {
	t.Helper()
	checkFailure(t, h, httptest.NewRequest(http.MethodGet, "/debug/brock/"+path, nil), status, code)
}

func checkFailure(t testing.TB, h http.Handler, r *http.Request, status int, code string) {
	t.Helper()
	var f struct{ Error, Code string }
	if got := request(t, h, r, &f); got != status || f.Code != code || f.Error == "" {
		t.Errorf("%s %s: %d %q %q, want %d %q", r.Method, r.URL, got, f.Code, f.Error, status, code)
	}
}

// eventOf is one server-sent event.
type eventOf struct {
	name string
	data json.RawMessage
}

// look opens an event stream of a server. It ends with the test, or by the function that is returned.
func look(t testing.TB, server *httptest.Server, path string) (events <-chan eventOf, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/debug/brock/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("%s: status %d, Content-Type %q", path, res.StatusCode, got)
	}
	out, over := make(chan eventOf, 1000), make(chan struct{})
	go func() {
		defer close(over)
		defer close(out)
		var e eventOf
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			switch name, rest, _ := strings.Cut(lines.Text(), ": "); {
			case name == "event":
				e.name = rest
			case name == "data":
				e.data = json.RawMessage(rest)
				out <- e
			}
		}
	}()
	leave = func() {
		cancel()
		<-over
		_ = res.Body.Close()
	}
	t.Cleanup(leave)
	return out, leave
}

// await returns the next event of a name for which fn returns true.
func await(t testing.TB, events <-chan eventOf, name string, fn func(data json.RawMessage) bool) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatalf("the stream ended before %s", name)
			}
			if e.name == name && fn(e.data) {
				return
			}
			if e.name == "end" {
				t.Fatalf("the stream ended: %s", e.data)
			}
		case <-late:
			t.Fatalf("no event %s within a minute", name)
		}
	}
}

func mount(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/debug/brock/", h)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

type keyRow struct {
	Key     string
	Version uint64
	Size    int64
	Meta    byte
	Expires int64
	Deleted bool
}

type keyPage struct {
	Keys           []keyRow
	Before, Behind bool
	Version        uint64
}

// names returns the keys of a page.
func (p *keyPage) names(t testing.TB) string {
	t.Helper()
	var names []string
	for _, k := range p.Keys {
		names = append(names, unb64(t, k.Key))
	}
	return fmt.Sprint(names, p.Before, p.Behind)
}
