package browser_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "directory for pictures of the views")

// program is the browser, looked for once.
var program = sync.OnceValue(func() string {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
})

// start starts the browser for all tests of the process, once.
var start = sync.OnceValues(func() (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program()), chromedp.DisableGPU, chromedp.Flag("hide-scrollbars", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to run as root otherwise
	}
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(alloc)
	stop = cancel
	return ctx, chromedp.Run(ctx)
})

var stop = func() {}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	stop()
	os.Exit(code)
}

// tab is a page of the browser.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // address of the page

	mu       sync.Mutex // guards:
	problems []string   // what the browser has complained of
}

// screen is how a page is looked at.
type screen struct {
	name          string
	width, height int64
	dark          bool
}

var (
	phone     = screen{"phone-light", 390, 844, false}
	darkPhone = screen{"phone-dark", 390, 844, true}
	desk      = screen{"desktop-light", 1280, 860, false}
	darkDesk  = screen{"desktop-dark", 1280, 860, true}
)

// open opens the page of a handler. When the test ends it must not have had an error.
func open(t *testing.T, h http.Handler, s screen) *tab {
	t.Helper()
	if program() == "" {
		t.Skip("no browser: install chromium, or name one by CHROMIUM")
	}
	browser, err := start()
	if err != nil {
		t.Fatalf("%s does not start: %v", program(), err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/brock/", h)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(cancel)
	tb := &tab{t: t, ctx: ctx, base: server.URL + "/debug/brock/"}
	chromedp.ListenTarget(ctx, tb.hear)
	t.Cleanup(func() {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		for _, p := range tb.problems {
			t.Errorf("the browser complains: %s", p)
		}
	})
	tb.run(log.Enable(), chromedp.ActionFunc(s.apply))
	tb.run(chromedp.Navigate(tb.base))
	return tb
}

// apply makes the page as wide as the screen.
func (s screen) apply(ctx context.Context) error {
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}
	if err := emulation.SetEmulatedMedia().WithFeatures(features).Do(ctx); err != nil {
		return err
	}
	scale := 1.0
	if s.width < 700 {
		scale = 2
	}
	return emulation.SetDeviceMetricsOverride(s.width, s.height, scale, s.width < 700).Do(ctx)
}

// hear notes errors: exceptions, violations of the policy, what a script logs.
func (tb *tab) hear(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			text = fmt.Sprintf("%v", e.Args)
		}
	case *log.EventEntryAdded:
		// That an answer is an error of HTTP, the page itself tells.
		if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork {
			text = e.Entry.Text
		}
	}
	if text == "" {
		return
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.problems = append(tb.problems, text)
}

func (tb *tab) run(actions ...chromedp.Action) {
	tb.t.Helper()
	if err := chromedp.Run(tb.ctx, actions...); err != nil {
		tb.t.Fatal(err)
	}
}

// view goes to a view by its address behind the #.
func (tb *tab) view(name string) {
	tb.t.Helper()
	tb.eval(fmt.Sprintf("location.hash = %s", quote("#/"+name)), nil)
}

func quote(s string) string {
	text, _ := json.Marshal(s) // a string can always be marshalled
	return string(text)
}

// eval evaluates a script in the page.
func (tb *tab) eval(script string, v any) {
	tb.t.Helper()
	tb.run(chromedp.Evaluate(script, v))
}

// text returns what a reader sees of the page.
func (tb *tab) text() (text string) {
	tb.t.Helper()
	tb.eval("document.body.innerText", &text)
	return text
}

// until waits until a script is true.
func (tb *tab) until(script string) {
	tb.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		var ok bool
		tb.eval("Boolean("+script+")", &ok)
		if ok {
			return
		}
		if time.Now().After(end) {
			tb.t.Fatalf("not within a minute: %s\n%s", script, tb.text())
		}
		time.Sleep(50 * time.Millisecond) // between two questions to the browser
	}
}

// sees waits until the page shows a text.
func (tb *tab) sees(text string) {
	tb.t.Helper()
	tb.until(fmt.Sprintf("document.body.innerText.includes(%s)", quote(text)))
}

// click clicks on the first element of a selector that has the text.
func (tb *tab) click(selector, text string) {
	tb.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%s)].find(e => e.innerText.includes(%s))", quote(selector), quote(text))
	tb.until(find)
	tb.eval(find+".click()", nil)
}

// fits fails if the page is wider than its window.
func (tb *tab) fits(what string) {
	tb.t.Helper()
	var over string
	tb.eval(`(() => {
		const wide = document.documentElement.clientWidth;
		if (document.documentElement.scrollWidth <= wide) return '';
		const bad = [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > wide + 1 && !e.closest('.scroll, nav, pre'));
		return document.documentElement.scrollWidth + ' px of ' + wide + ': ' + bad.slice(0, 5).map(e => e.tagName + '.' + (e.getAttribute('class') || '')).join(', ');
	})()`, &over)
	if over != "" {
		tb.t.Errorf("%s is wider than the window: %s", what, over)
	}
}

// shoot writes a picture of the whole page, if asked for.
func (tb *tab) shoot(name string) {
	tb.t.Helper()
	if *shots == "" {
		return
	}
	var png []byte
	tb.run(chromedp.FullScreenshot(&png, 100))
	if err := os.MkdirAll(*shots, 0o755); err != nil {
		tb.t.Fatal(err)
	}
	path := filepath.Join(*shots, strings.ReplaceAll(name, "/", "-")+".png")
	if err := os.WriteFile(path, png, 0o644); err != nil {
		tb.t.Fatal(err)
	}
}
