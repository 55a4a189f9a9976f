package brockfiber

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/cache"
	"github.com/gofiber/fiber/v3/middleware/csrf"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/gofiber/fiber/v3/middleware/limiter"
	"github.com/gofiber/fiber/v3/middleware/session"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// newApp is an application whose middleware keeps its state in a store: /visits counts those of a
// session, /slow is cached, /pay is done once for each idempotency key, and /limited is refused after
// two calls. made counts what the handlers have done.
func newApp(t *testing.T, db *brock.DB, made *int) *fiber.App {
	storage := func(name string) fiber.Storage {
		keys, err := db.Keyspace(name)
		assert.OK(t, err)
		return New(db, keys)
	}
	app := fiber.New()
	app.Get("/visits", session.New(session.Config{Storage: storage("sessions")}), func(c fiber.Ctx) error {
		s := session.FromContext(c)
		n, _ := s.Get("visits").(int)
		s.Set("visits", n+1)
		return c.SendString(fmt.Sprint(n + 1))
	})
	app.Get("/slow", cache.New(cache.Config{Storage: storage("cache"), Expiration: time.Hour}), func(c fiber.Ctx) error {
		*made++
		return c.SendString(fmt.Sprint("made ", *made))
	})
	app.Post("/pay", idempotency.New(idempotency.Config{Storage: storage("idempotency"), Lifetime: time.Hour}), func(c fiber.Ctx) error {
		*made++
		return c.SendString(fmt.Sprint("made ", *made))
	})
	app.Get("/limited", limiter.New(limiter.Config{Storage: storage("limits"), Max: 2, Expiration: time.Hour}), func(c fiber.Ctx) error {
		return c.SendString("fine")
	})
	app.Use("/form", csrf.New(csrf.Config{Storage: storage("tokens"), CookieSecure: false}), func(c fiber.Ctx) error {
		return c.SendString(csrf.TokenFromContext(c))
	})
	return app
}

// TestMiddleware runs Fiber's middleware on a store, and goes on after a restart where it was.
func TestMiddleware(t *testing.T) {
	dir := t.TempDir()
	var cookies []*http.Cookie
	made := 0
	var app *fiber.App
	ask := func(method, path string, header ...string) (int, string) {
		t.Helper()
		r := httptest.NewRequest(method, path, http.NoBody)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		for _, c := range cookies {
			r.AddCookie(c)
		}
		answer, err := app.Test(r, fiber.TestConfig{})
		assert.OK(t, err)
		defer answer.Body.Close()
		cookies = append(cookies, answer.Cookies()...)
		body, err := io.ReadAll(answer.Body)
		assert.OK(t, err)
		return answer.StatusCode, string(body)
	}
	want := func(status int, body, method, path string, header ...string) {
		t.Helper()
		if s, b := ask(method, path, header...); s != status || b != body {
			t.Errorf("%s %s: %d %q, want %d %q", method, path, s, b, status, body)
		}
	}
	key := []string{"X-Idempotency-Key", "6d1c1c0e-7c1e-4d3a-9a38-000000000001"}
	token := ""
	for restart := range 3 {
		db, err := brock.Open(brock.Options{Dir: dir, Durability: brock.Buffered})
		assert.OK(t, err)
		app = newApp(t, db, &made)
		want(200, fmt.Sprint(2*restart+1), "GET", "/visits")
		want(200, fmt.Sprint(2*restart+2), "GET", "/visits")
		want(200, "made 1", "GET", "/slow")
		want(200, "made 2", "POST", "/pay", key...)
		want(200, "made 2", "POST", "/pay", key...)
		switch restart {
		case 0:
			want(200, "fine", "GET", "/limited")
			want(200, "fine", "GET", "/limited")
			_, token = ask("GET", "/form")
		default:
			if s, _ := ask("POST", "/form", "X-Csrf-Token", token, "Referer", "http://example.com/form"); s != 200 {
				t.Errorf("a token from before the restart: %d", s)
			}
		}
		if s, _ := ask("GET", "/limited"); s != 429 {
			t.Errorf("third call: %d", s)
		}
		if s, _ := ask("POST", "/form", "X-Csrf-Token", "forged"); s != 403 {
			t.Errorf("a forged token: %d", s)
		}
		assert.OK(t, app.Shutdown())
		assert.OK(t, db.Close())
	}
}
