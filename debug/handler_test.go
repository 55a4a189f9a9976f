package debug_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/debug"
)

// Every name that answers with JSON, with parameters that fit.
var names = []string{
	"state", "keyspaces", "keyspaces?by=size", "keys", "history?key=" + b64("a"), "value?key=" + b64("a"), "sizes", "shape", "files", "events",
}

func TestStateTellsWhatTheStoreIs(t *testing.T) {
	db := openStore(t, brock.Options{})
	set(t, db, "a", "1", "b", "2")
	makeKeyspace(t, db, "users")
	var s struct {
		Title, Mode string
		Encrypted   bool
		Keyspaces   int
		Metrics     map[string]float64
		Latencies   map[string]struct{ Count int64 }
		Allowed     struct {
			Values  bool
			Actions []string
		}
		Limits struct{ Durability string }
	}
	need(t, debug.Handler(db), "state", &s)
	if want := filepath.Base(db.Options().Dir); s.Title != want || s.Mode != "ReadWrite" || s.Encrypted || s.Keyspaces != 1 || s.Limits.Durability != "Buffered" {
		t.Errorf("%+v, want title %s", s, want)
	}
	if s.Metrics["commits"] != 2 || s.Metrics["version"] < 2 || s.Latencies["commit_latency"].Count != 2 {
		t.Errorf("metrics %v, latencies %v", s.Metrics, s.Latencies)
	}
	if s.Allowed.Values || len(s.Allowed.Actions) > 0 {
		t.Errorf("without options the page may %+v", s.Allowed)
	}
	// Every metric has its name of docs/metrics.md.
	m := db.Metrics()
	m.Each(func(name, _, _ string, _ brock.MetricKind, _ float64) {
		if _, ok := s.Metrics[name]; !ok {
			t.Errorf("no metric %s", name)
		}
	})
}

func TestTitleReplacesTheDirectory(t *testing.T) {
	var s struct{ Title string }
	need(t, debug.Handler(openStore(t, brock.Options{InMemory: true})), "state", &s)
	if s.Title != "store in memory" {
		t.Errorf("title %q", s.Title)
	}
	need(t, debug.Handler(openStore(t, brock.Options{}), nil, debug.Title("orders")), "state", &s)
	if s.Title != "orders" {
		t.Errorf("title %q", s.Title)
	}
}

// The handler looks at the last part of the path only, so it works wherever it is mounted.
func TestMountedAnywhere(t *testing.T) {
	h := debug.Handler(openStore(t, brock.Options{}))
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("/deep/er/", h)
	mux.Handle("/strip/", http.StripPrefix("/strip", h))
	for _, path := range []string{"/", "/deep/er/", "/strip/"} {
		for name, want := range map[string]string{"": "text/html; charset=utf-8", "app.js": "text/javascript; charset=utf-8", "style.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml", "state": "application/json"} {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+name, nil))
			if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != want {
				t.Errorf("%s%s: %d %s", path, name, w.Code, got)
			}
		}
	}
	refuse(t, h, "absent.js", http.StatusNotFound, "absent")
	refuse(t, h, "..%2fhandler.go", http.StatusNotFound, "absent")
}

// The policy allows files of the page only, so nothing in a key can run, and nothing is fetched from
// elsewhere.
func TestPageObeysItsOwnPolicy(t *testing.T) {
	h := debug.Handler(openStore(t, brock.Options{}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	policy := w.Header().Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy lacks %s: %s", part, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
		t.Errorf("policy %s", policy)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Access-Control-Allow-Origin": ""} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// What would make markup or code of a string, or load something from elsewhere.
	never := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|https?://|style="|\son[a-z]+="|<script>|<style|javascript:`)
	own := regexp.MustCompile(`http://www\.w3\.org/2000/svg`)
	err := fs.WalkDir(os.DirFS("page"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join("page", path))
		if bad := never.Find(own.ReplaceAll(data, nil)); bad != nil {
			t.Errorf("page/%s has %q", path, bad)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMethodsThatChangeNothingOnly(t *testing.T) {
	h := debug.Handler(openStore(t, brock.Options{}), debug.Actions())
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		checkFailure(t, h, httptest.NewRequest(method, "/debug/brock/state", nil), http.StatusMethodNotAllowed, "method")
	}
	// A HEAD of a stream would go on for ever.
	checkFailure(t, h, httptest.NewRequest(http.MethodHead, "/debug/brock/live", nil), http.StatusMethodNotAllowed, "method")
	checkFailure(t, h, httptest.NewRequest(http.MethodGet, "/debug/brock/action?do=compact", nil), http.StatusMethodNotAllowed, "method")
}

func TestClosedStoreIsAClearMessage(t *testing.T) {
	t.Parallel()
	db := openStore(t, brock.Options{})
	set(t, db, "a", "1")
	h := debug.Handler(db, debug.Values(), debug.Actions())
	server := mount(t, h)
	events, _ := look(t, server, "live")
	await(t, events, "state", func(json.RawMessage) bool { return true })
	heat, _ := look(t, server, "heat")
	await(t, heat, "grid", func(json.RawMessage) bool { return true })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	// Open streams end with the reason.
	for name, stream := range map[string]<-chan eventOf{"live": events, "heat": heat} {
		var last eventOf
		for e := range stream {
			last = e
		}
		var f struct{ Error, Code string }
		if err := json.Unmarshal(last.data, &f); err != nil || last.name != "end" || f.Code != "closed" {
			t.Errorf("%s: the last event is %s %s", name, last.name, last.data)
		}
	}
	for _, name := range append(names, "live", "heat") {
		refuse(t, h, name, http.StatusServiceUnavailable, "closed")
		refuse(t, debug.Handler(nil), name, http.StatusServiceUnavailable, "closed")
	}
	r := httptest.NewRequest(http.MethodPost, "/debug/brock/action?do=compact", nil)
	r.Header.Set("X-Brock-Action", "1")
	checkFailure(t, h, r, http.StatusServiceUnavailable, "closed")
	// The page itself still comes: it shows the message.
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/brock/", nil))
	if w.Code != http.StatusOK {
		t.Errorf("page of a closed store: %d", w.Code)
	}
}

// Every answer works on every kind of store.
func TestKindsOfStores(t *testing.T) {
	filled := func(o brock.Options) string {
		o.Dir = t.TempDir()
		db, err := brock.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		set(t, db, "a", "1", "b", strings.Repeat("x", 10000))
		set(t, makeKeyspace(t, db, "users"), "u", "v")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return o.Dir
	}
	key := brock.StaticKey(bytes.Repeat([]byte{7}, 32))
	stores := map[string]brock.Options{
		"empty":     {},
		"in memory": {InMemory: true},
		"encrypted": {Dir: filled(brock.Options{Keys: key}), Keys: key},
		"read only": {Dir: filled(brock.Options{}), Mode: brock.ReadOnly},
	}
	if runtime.GOOS != "windows" {
		stores["followed"] = brock.Options{Dir: filled(brock.Options{}), Mode: brock.Follow}
	}
	for name, o := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for the clock
			db := openStore(t, o)
			h := debug.Handler(db, debug.Values(), debug.Actions())
			empty := o.Dir == ""
			for _, name := range names {
				var v any
				status := ask(t, h, name, &v)
				if want := http.StatusOK; status != want && !(empty && strings.HasPrefix(name, "value") && status == http.StatusNotFound) {
					t.Errorf("%s: %d %v", name, status, v)
				}
			}
			server := mount(t, h)
			events, leave := look(t, server, "live")
			await(t, events, "points", func(json.RawMessage) bool { return true })
			leave()
			heat, leave := look(t, server, "heat")
			await(t, heat, "columns", func(json.RawMessage) bool { return true })
			leave()
			// Only the writer can change something.
			var s struct {
				Allowed struct{ Actions []string }
				Metrics map[string]float64
			}
			need(t, h, "state", &s)
			if free := s.Metrics["disk_free"]; free < 0 && !o.InMemory {
				t.Errorf("disk left: %v", free)
			}
			want := "[verify compact reclaim delete]"
			if o.Mode != brock.ReadWrite {
				want = "[verify]"
			}
			if got := fmt.Sprint(s.Allowed.Actions); got != want {
				t.Errorf("actions %s, want %s", got, want)
			}
		})
	}
}

// ours returns the goroutines of this module that are at work for a page.
func ours() (stacks []string) {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for _, g := range strings.Split(string(buf), "\n\n") {
		if strings.Contains(g, "brock/debug.(*handler)") || strings.Contains(g, "brock/debug.(*heat)") {
			stacks = append(stacks, g)
		}
	}
	return stacks
}

// While nobody looks there is no goroutine, no Watch, and no read of the store. It runs while no other
// test does, as it looks at all goroutines.
func TestNothingRunsWhileNobodyLooks(t *testing.T) {
	db := openStore(t, brock.Options{})
	set(t, db, "a", "1")
	h := debug.Handler(db)
	if g := ours(); len(g) > 0 {
		t.Fatalf("the handler alone has goroutines:\n%s", g[0])
	}
	server := mount(t, h)
	live, leaveLive := look(t, server, "live")
	heat, leaveHeat := look(t, server, "heat")
	await(t, live, "points", func(json.RawMessage) bool { return true })
	await(t, heat, "columns", func(json.RawMessage) bool { return true })
	if len(ours()) == 0 {
		t.Fatal("two pages look, and no goroutine is found: this test does not see them")
	}
	leaveLive()
	leaveHeat()
	for end := time.Now().Add(time.Minute); len(ours()) > 0 || db.Metrics().Tree.Watches > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("nobody looks any more, but %d Watches and these go on:\n%s", db.Metrics().Tree.Watches, strings.Join(ours(), "\n\n"))
		}
	}
	// And none begins again by itself: a timer would fire within a few of the intervals.
	before := db.Metrics()
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if g := ours(); len(g) > 0 {
			t.Fatalf("a goroutine began while nobody looks:\n%s", g[0])
		}
	}
	if after := db.Metrics(); after.Reads != before.Reads || after.Iterators != before.Iterators {
		t.Errorf("the store was read while nobody looks: %v, then %v", before, after)
	}
}

// What a client asks for ends when it goes.
func TestAnswersEndWithTheirClient(t *testing.T) {
	db := openStore(t, brock.Options{})
	for i := range 300 {
		makeKeyspace(t, db, fmt.Sprintf("k%03d", i))
	}
	set(t, db, "a", "1")
	h := debug.Handler(db, debug.Values())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, name := range []string{"keys", "history?key=" + b64("a"), "value?key=" + b64("a"), "sizes", "shape", "files", "keyspaces", "keyspaces?by=size"} {
		checkFailure(t, h, httptest.NewRequest(http.MethodGet, "/debug/brock/"+name, nil).WithContext(ctx), http.StatusServiceUnavailable, "cancelled")
	}
}

func TestStreamsAreBounded(t *testing.T) {
	db := openStore(t, brock.Options{})
	server := mount(t, debug.Handler(db))
	var leave []func()
	refused := 0
	for i := 0; i < 33; i++ {
		res, err := server.Client().Get(server.URL + "/debug/brock/live")
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == http.StatusServiceUnavailable {
			refused++
		}
		leave = append(leave, func() { _ = res.Body.Close() })
	}
	if refused != 1 {
		t.Errorf("%d of 33 streams were refused, want 1", refused)
	}
	for _, fn := range leave {
		fn()
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	db := openStore(t, brock.Options{})
	h := debug.Handler(db, debug.Values())
	for _, path := range []string{
		"keys?limit=0", "keys?limit=501", "keys?limit=x", "keys?prefix=%21", "keys?from=a%3D%3D", "keys?end=middle", "keys?at=-1", "keys?ks=%2B", "keys?%zz", "keys?a;b",
		"keyspaces?limit=201", "keyspaces?by=age", "history?key=" + b64("a") + "&before=x", "value?key=" + b64("a") + "&offset=-1", "value?key=" + b64("a") + "&limit=65537", "sizes?prefix=*",
	} {
		refuse(t, h, path, http.StatusBadRequest, "invalid")
	}
	// A keyspace that is not there is not made.
	for _, name := range []string{"keys", "history", "value", "sizes", "shape"} {
		refuse(t, h, name+"?ks="+b64("absent"), http.StatusNotFound, "absent")
	}
	for range db.Keyspaces() {
		t.Error("a request has made a keyspace")
	}
}

// All files of both directories are listed, the largest first, with what the store says of them.
func TestFilesOfTheStore(t *testing.T) {
	o := brock.Options{Dir: t.TempDir(), ValueDir: t.TempDir(), Maintenance: brock.Maintenance{GarbageRatio: 0.9, IdleAfter: time.Hour}}
	db := openStore(t, o)
	for _, n := range []int{50, 20} { // the second round makes some of the first one garbage
		for i := range n {
			set(t, db, fmt.Sprint("a", i), strings.Repeat("x", 10000))
		}
		if err := db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	type page struct {
		Files []struct {
			Name, Kind, Use, Tier string
			Bytes, Dead, Entries  int64
			Time                  int64
		}
		Kinds map[string]struct {
			Count int
			Dead  int64
		}
		Total struct {
			Count int
			Bytes int64
			Dead  int64
		}
	}
	var p page
	need(t, debug.Handler(db), "files", &p)
	if dead := db.Metrics().Tree.DeadBytes; p.Total.Dead < dead || dead != 200_000 || p.Kinds["journal"].Dead+p.Kinds["value"].Dead != dead {
		t.Errorf("%d of %d bytes are dead: %+v", p.Total.Dead, dead, p)
	}
	if p.Kinds["run"].Count != 1 || p.Kinds["other"].Count < 3 || p.Total.Count != len(p.Files) {
		t.Errorf("%+v", p)
	}
	for i, f := range p.Files {
		if i > 0 && f.Bytes > p.Files[i-1].Bytes {
			t.Errorf("not the largest first: %+v", p.Files)
		}
		if f.Kind == "run" && (f.Tier != "base" || f.Entries != 50) || f.Kind == "other" && f.Use != "" || f.Time == 0 {
			t.Errorf("%+v", f)
		}
	}
	db = openStore(t, brock.Options{InMemory: true})
	set(t, db, "a", "b")
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	p = page{}
	need(t, debug.Handler(db), "files", &p)
	if p.Kinds["run"].Count != 1 || p.Files[0].Bytes == 0 {
		t.Errorf("in memory: %+v", p)
	}
}

// Whatever the path and the query are, the answer is one, and nothing panics.
func FuzzRequests(f *testing.F) {
	for _, name := range names {
		f.Add(name)
	}
	f.Add("keys?prefix=" + b64("\xff\xff") + "&before=" + b64(""))
	f.Add("sizes?prefix=" + b64("\xff"))
	f.Add("value?key=&version=18446744073709551615&offset=2147483647")
	db := openStore(f, brock.Options{InMemory: true})
	set(f, db, "", "empty", "\xff\xff", "last", "a/b", "1", "a/c", "2")
	h := debug.Handler(db, debug.Values())
	f.Fuzz(func(t *testing.T, target string) {
		r, err := http.NewRequest(http.MethodGet, "http://x/"+target, nil)
		if err != nil || strings.HasSuffix(r.URL.Path, "/live") || strings.HasSuffix(r.URL.Path, "/heat") {
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	})
}
