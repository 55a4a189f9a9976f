package brockfiber_test

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/session"

	"github.com/brockdb/brock"
	brockfiber "github.com/brockdb/brock/integrations/fiber"
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
