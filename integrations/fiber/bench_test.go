package brockfiber_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/storage/bbolt/v2"

	"github.com/brockdb/brock"
	brockfiber "github.com/brockdb/brock/integrations/fiber"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// get returns the body of an answer.
func get(app *fiber.App, path string) string {
	answer, err := app.Test(httptest.NewRequest(http.MethodGet, path, http.NoBody), fiber.TestConfig{})
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// storages are what is compared. That of bbolt waits for the disk at each Set, and keeps entries for
// ever, whatever their expiration.
var storages = []struct {
	name string
	open func(b *testing.B) fiber.Storage
}{
	{"brock", func(b *testing.B) fiber.Storage {
		s, err := brockfiber.Open(brock.Options{Dir: b.TempDir()})
		assert.OK(b, err)
		return s
	}},
	{"brock-synced", func(b *testing.B) fiber.Storage {
		s, err := brockfiber.Open(brock.Options{Dir: b.TempDir(), Durability: brock.Synced})
		assert.OK(b, err)
		return s
	}},
	{"bbolt-synced", func(b *testing.B) fiber.Storage {
		return bbolt.New(bbolt.Config{Database: filepath.Join(b.TempDir(), "fiber.db")})
	}},
}

// Benchmark measures sessions of 300 bytes: each request reads one and writes it, by 1 and by 16
// goroutines.
func Benchmark(b *testing.B) {
	const sessions = 10_000
	key := func(n int64) string { return fmt.Sprintf("session-%06d-7c1e-4d3a-9a38", n%sessions) }
	for _, st := range storages {
		for _, goroutines := range []int{1, 16} {
			b.Run(fmt.Sprintf("get/%dg/%s", goroutines, st.name), func(b *testing.B) {
				s := st.open(b)
				defer s.Close()
				const filled = 100
				for n := range int64(filled) {
					assert.OK(b, s.Set(key(n), make([]byte, 300), time.Hour))
				}
				each(b, goroutines, func(n int64) error {
					value, err := s.Get(key(n % filled))
					if err == nil && len(value) != 300 {
						err = fmt.Errorf("%d bytes", len(value))
					}
					return err
				})
			})
			b.Run(fmt.Sprintf("get-set/%dg/%s", goroutines, st.name), func(b *testing.B) {
				s := st.open(b)
				defer s.Close()
				each(b, goroutines, func(n int64) error {
					if _, err := s.Get(key(n)); err != nil {
						return err
					}
					return s.Set(key(n), make([]byte, 300), time.Hour)
				})
			})
		}
	}
}

// each calls fn with 0 to b.N-1 from goroutines.
func each(b *testing.B, goroutines int, fn func(n int64) error) {
	b.ReportAllocs()
	b.SetParallelism(goroutines) // times GOMAXPROCS
	b.ResetTimer()
	var next atomic.Int64
	if goroutines == 1 {
		for range b.N {
			assert.OK(b, fn(next.Add(1)))
		}
		return
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := fn(next.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
