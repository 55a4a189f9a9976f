// Command timeseries writes points of many tenants, sums them up by the hour, reads both, and drops a
// tenant:
//
//	go run .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"sync"
	"time"

	"github.com/brockdb/brock"
)

func main() {
	var (
		tenants = flag.Int("tenants", 8, "tenants")
		series  = flag.Int("series", 50, "series of each tenant")
		points  = flag.Int("points", 2000, "points of each series, one each 10 s")
	)
	flag.Parse()
	dir, err := os.MkdirTemp("", "timeseries-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := brock.Open(brock.DefaultOptions(dir))
	if err != nil {
		log.Fatal(err)
	}
	s := NewSeries(db, 7*24*time.Hour, 365*24*time.Hour)
	if err := errors.Join(show(db, s, *tenants, *series, *points), db.Close()); err != nil {
		log.Fatal(err)
	}
}

const step = 10 * time.Second

// show does all that the command shows.
func show(db *brock.DB, s *Series, tenants, series, points int) error {
	from := time.Now().Add(-time.Duration(points) * step).Truncate(time.Hour)
	all := tenants * series * points
	err := timed("written", all, func() error { return writeAll(s, from, tenants, series, points) })
	if err != nil {
		return err
	}
	hours := 0
	err = timed("summed up", all, func() error {
		for t := range tenants {
			n, err := s.Downsample(context.Background(), tenantName(t))
			if err != nil {
				return err
			}
			hours += n
		}
		return nil
	})
	if err != nil {
		return err
	}
	seen := 0
	err = timed("read", series*points, func() error {
		for i := range series {
			err := s.Points(tenantName(0), seriesName(i), from, time.Now().Add(time.Hour), func(Point) error {
				seen++
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if seen != series*points {
		return fmt.Errorf("%d points instead of %d", seen, series*points)
	}
	fmt.Printf("%d hours\n", hours)
	if err := s.Drop(context.Background(), tenantName(0)); err != nil {
		return err
	}
	if err := db.Compact(context.Background()); err != nil {
		return err
	}
	m := db.Metrics()
	fmt.Printf("%.1f bytes in files for each point, once a tenant is dropped\n", float64(m.Tree.LiveBytes)/float64(all-series*points))
	return nil
}

// timed calls fn, which does n things, and prints how many a second.
func timed(what string, n int, fn func() error) error {
	begin := time.Now()
	err := fn()
	fmt.Printf("%9d points %-9s %9.0f a second\n", n, what, float64(n)/time.Since(begin).Seconds())
	return err
}

func tenantName(i int) string { return fmt.Sprintf("tenant%d", i) }
func seriesName(i int) string { return fmt.Sprintf("cpu.%03d", i) }

// writeAll has one goroutine for each tenant write its series, 100 points of one a commit.
func writeAll(s *Series, from time.Time, tenants, series, points int) error {
	failed := make([]error, tenants)
	var wait sync.WaitGroup
	for t := range tenants {
		wait.Go(func() { failed[t] = writeTenant(s, from, tenantName(t), series, points) })
	}
	wait.Wait()
	return errors.Join(failed...)
}

func writeTenant(s *Series, from time.Time, tenant string, series, points int) error {
	const perCommit = 100
	batch := make([]Point, 0, perCommit)
	for at := 0; at < points; at += perCommit {
		for i := range series {
			batch = batch[:0]
			for p := at; p < min(at+perCommit, points); p++ {
				batch = append(batch, Point{from.Add(time.Duration(p) * step), math.Sin(float64(p+i) / 100)})
			}
			if err := s.Add(tenant, seriesName(i), batch...); err != nil {
				return err
			}
		}
	}
	return nil
}
