// Package debug serves a page that shows what a store holds and does, to mount beside pprof:
//
//	http.Handle("/debug/brock/", debug.Handler(db))
//
// The page says why the store is as large as it is, what slows it down, and whether it is healthy.
// It shows keys, their versions and sizes, and where writes go. It only reads, unless Actions is
// given, and gives out no value unless Values is.
//
// Whoever reaches the page sees the keys: serve it to operators only, as pprof.
package debug

import (
	"embed"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/brockdb/brock"
)

//go:embed page
var page embed.FS

// Handler returns the page of db and the answers that it asks for. Mount it at any path that ends in
// a slash, with or without http.StripPrefix: it looks at the last part of the path only.
//
// It may be used by any number of goroutines, before and after db is closed: then it says so. It has
// no goroutine and no timer of its own. While no page is open it does nothing, and db doesn't notice
// it.
func Handler(db *brock.DB, options ...Option) http.Handler {
	h := &handler{db: db}
	for _, o := range options {
		if o != nil {
			o(&h.config)
		}
	}
	// The longest prefix decides.
	sort.SliceStable(h.decoders, func(i, j int) bool { return len(h.decoders[i].prefix) > len(h.decoders[j].prefix) })
	h.samples = &sampler{db: db}
	h.heat = &heat{db: db}
	return h
}

// handler is what Handler returns.
type handler struct {
	db *brock.DB
	config
	samples *sampler
	heat    *heat
	streams atomic.Int64 // open event streams
	acting  sync.Mutex   // held while an action is at work
}

// config is what the options say.
type config struct {
	title    string
	values   bool
	actions  bool
	decoders []decoder
	log      *Log
}

// An Option changes what the page shows and may do.
type Option func(*config)

// Title names the store at the head of the page. Without it, that is the last part of its directory.
func Title(title string) Option { return func(c *config) { c.title = title } }

// Values lets the page show values. It still hides each one until somebody asks for it.
func Values() Option { return func(c *config) { c.values = true } }

// Actions lets the page compact, reclaim and verify the store, and delete single keys. Each is a POST
// that only a page of the same origin can send.
func Actions() Option { return func(c *config) { c.actions = true } }

// Events shows the events that log has collected.
func Events(log *Log) Option { return func(c *config) { c.log = log } }

// maxStreams is how many event streams may be open at once.
const maxStreams = 32

// policy allows the files of the page, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP answers by the last part of the path.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if name == "action" {
		h.act(w, r)
		return
	}
	streams := name == "live" || name == "heat"
	if r.Method != http.MethodGet && (r.Method != http.MethodHead || streams) {
		header.Set("Allow", "GET, HEAD")
		writeError(w, http.StatusMethodNotAllowed, "method", "this is only read: use GET")
		return
	}
	if answer, ok := answers[name]; ok {
		h.answer(w, r, answer)
		return
	}
	switch name {
	case "live":
		h.stream(w, r, h.live)
	case "heat":
		h.stream(w, r, h.heatMap)
	case "":
		serveFile(w, "index.html")
	default:
		serveFile(w, name)
	}
}

// answers are the functions behind the names that return one JSON value.
var answers = map[string]func(*handler, *http.Request) (any, error){
	"state":     (*handler).state,
	"keyspaces": (*handler).keyspaces,
	"keys":      (*handler).keys,
	"history":   (*handler).history,
	"value":     (*handler).value,
	"sizes":     (*handler).sizes,
	"shape":     (*handler).shape,
	"files":     (*handler).listFiles,
	"events":    (*handler).events,
}

// answer writes what a function returns as JSON.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, fn func(*handler, *http.Request) (any, error)) {
	if err := h.checkOpen(); err != nil {
		writeFailure(w, err)
		return
	}
	v, err := fn(h, r)
	if err != nil {
		writeFailure(w, err)
		return
	}
	writeJSON(w, http.StatusOK, v)
}

var errNoStore = fmt.Errorf("no store was given to the page: %w", brock.ErrClosed)

// checkOpen returns ErrClosed unless the store can be read.
func (h *handler) checkOpen() error {
	if h.db == nil {
		return errNoStore
	}
	if err := h.db.Err(); errors.Is(err, brock.ErrClosed) {
		return err
	}
	return nil
}

// serveFile writes a file of the page.
func serveFile(w http.ResponseWriter, name string) {
	data, err := page.ReadFile("page/" + name)
	if err != nil {
		writeError(w, http.StatusNotFound, "absent", "there is no such page")
		return
	}
	kind := mime.TypeByExtension(path.Ext(name))
	switch path.Ext(name) { // the system's table may lack or change these
	case ".html":
		kind = "text/html; charset=utf-8"
	case ".css":
		kind = "text/css; charset=utf-8"
	case ".js":
		kind = "text/javascript; charset=utf-8"
	case ".svg":
		kind = "image/svg+xml"
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(data) // the client has gone
}
