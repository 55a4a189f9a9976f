package brocknosql_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/smallstep/nosql"
	"github.com/smallstep/nosql/database"

	brocknosql "github.com/brockdb/brock/integrations/nosql"
	"github.com/brockdb/brock/internal/test/kit/assert"
)

// drivers are what is compared; all of them wait for the disk at each commit.
var drivers = []struct {
	name string
	open func(b *testing.B) database.DB
}{
	{"brock", func(b *testing.B) database.DB {
		db := new(brocknosql.DB)
		assert.OK(b, db.Open(b.TempDir()))
		return db
	}},
	{"bbolt", func(b *testing.B) database.DB { return driver(b, "bbolt", filepath.Join(b.TempDir(), "db")) }},
	{"badgerv2", func(b *testing.B) database.DB { return driver(b, "badgerv2", b.TempDir()) }},
}

func driver(b *testing.B, name, path string) database.DB {
	db, err := nosql.New(name, path)
	assert.OK(b, err)
	return db
}

// Benchmark measures a certificate authority: it stores certificates of 2 KB, reads them, and swaps
// small records.
func Benchmark(b *testing.B) {
	table, filled := []byte("x509_certs"), int64(2000)
	key := func(n int64) []byte { return []byte(fmt.Sprintf("%040d", n*2654435761)) }
	for _, d := range drivers {
		for _, goroutines := range []int{1, 16} {
			run := func(name string, fill int64, fn func(db database.DB, n int64) error) {
				b.Run(fmt.Sprintf("%s/%dg/%s", name, goroutines, d.name), func(b *testing.B) {
					db := d.open(b)
					defer db.Close()
					assert.OK(b, db.CreateTable(table))
					for n := range fill {
						assert.OK(b, db.Set(table, key(n), make([]byte, 2000)))
					}
					b.ReportAllocs()
					b.SetParallelism(goroutines) // times GOMAXPROCS
					b.ResetTimer()
					var next atomic.Int64
					if goroutines == 1 {
						for range b.N {
							assert.OK(b, fn(db, next.Add(1)))
						}
						return
					}
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							if err := fn(db, next.Add(1)); err != nil {
								b.Error(err)
								return
							}
						}
					})
				})
			}
			run("set", 0, func(db database.DB, n int64) error { return db.Set(table, key(n), make([]byte, 2000)) })
			run("cas", 0, func(db database.DB, n int64) error {
				_, swapped, err := db.CmpAndSwap(table, key(n), nil, []byte("nonce"))
				if err == nil && !swapped {
					err = fmt.Errorf("not swapped")
				}
				return err
			})
			run("get", filled, func(db database.DB, n int64) error {
				_, err := db.Get(table, key(n%filled))
				return err
			})
		}
	}
}
