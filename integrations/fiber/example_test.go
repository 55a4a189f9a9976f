package brockfiber_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/session"

	"github.com/brockdb/brock"
	brockfiber "github.com/brockdb/brock/integrations/fiber"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// serve is the code in README.md, which TestReadme compares with it.
func serve(dir string) (*fiber.App, error) {
	storage, err := brockfiber.Open(brock.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	app := fiber.New()
	app.Use(session.New(session.Config{Storage: storage, IdleTimeout: time.Hour}))
	app.Get("/", func(c fiber.Ctx) error {
		s := session.FromContext(c)
		n, _ := s.Get("visits").(int)
		s.Set("visits", n+1)
		return c.SendString(fmt.Sprintf("visit %d", n+1))
	})
	app.Hooks().OnPostShutdown(func(error) error { return storage.Close() })
	return app, nil
}

func Example() {
	dir, err := os.MkdirTemp("", "brockfiber")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	app, err := serve(dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(get(app, "/"))
	fmt.Println(app.Shutdown())
	// Output:
	// visit 1
	// <nil>
}

// TestReadme: the README shows the program above.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	assert.OK(t, err)
	source, err := os.ReadFile("example_test.go")
	assert.OK(t, err)
	_, code, _ := strings.Cut(string(source), "func serve(")
	code, _, _ = strings.Cut("func serve("+code, "\n}\n")
	code = "    " + strings.ReplaceAll(code+"\n}\n", "\n", "\n    ")
	if code = strings.TrimRight(code, " "); !strings.Contains(string(readme), code) {
		t.Errorf("README.md does not show this:\n%s", code)
	}
}
