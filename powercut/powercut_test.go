package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// TestImages holds images of a made-up recording against what a disk promises: what came before
// a flush is there, and of the rest each sector is old or new.
func TestImages(t *testing.T) {
	const sector, sectors = 4096, 16
	rng := rand.New(rand.NewPCG(1, 1))
	rec := &recording{data: make([]byte, sectors*sector)}
	rec.start()
	for n := 1; n <= 200; n++ {
		switch rng.IntN(6) {
		case 0:
			rec.flush()
		case 1:
			rec.acknowledge(rng.IntN(3), n)
		default:
			rec.writeAt(bytes.Repeat([]byte{byte(n)}, 2*sector), int64(rng.IntN(sectors-1)*sector))
		}
	}
	rec.stop()
	rec.writeAt(make([]byte, sector), 0) // is not recorded
	torn := false
	err := rec.images(rng, 300, func(c cut, image []byte) error {
		var may [sectors]map[byte]bool // what each sector may hold
		for i := range may {
			may[i] = map[byte]bool{0: true}
		}
		told := acks{}
		durable := 0
		for i, e := range rec.events[:c.at] {
			if e.kind == flush {
				durable = i
			}
		}
		for i, e := range rec.events[:c.at] {
			switch e.kind {
			case ack:
				told[e.worker] = e.commit
			case write:
				for at := e.offset / sector; at < (e.offset+int64(len(e.data)))/sector; at++ {
					if i < durable {
						clear(may[at])
					}
					may[at][e.data[0]] = true
				}
			}
		}
		if !maps.Equal(told, c.acks) {
			t.Errorf("%v: acknowledged were %v, want %v", c, c.acks, told)
		}
		for i := range may {
			part := image[i*sector : (i+1)*sector]
			for _, b := range []byte{part[0], part[sector-1]} {
				if !may[i][b] {
					t.Errorf("%v: sector %d holds %d, and may hold %v", c, i, b, may[i])
				}
			}
			torn = torn || part[0] != part[sector-1]
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !torn {
		t.Error("no write was torn")
	}
}

// TestCheck has a store written, and the check find what is wrong with it.
func TestCheck(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(shapeOf(seed).String(), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			// However slow the machine is, each worker commits something.
			ctx, cancel := context.WithCancel(t.Context())
			said := hears{of: map[string]bool{}, all: func() { time.AfterFunc(200*time.Millisecond, cancel) }}
			w := work{dir: dir, seed: seed | 4, out: &said} // 4: the store is closed
			if err := w.run(ctx); err != nil {
				t.Fatal(err)
			}
			told := acks{}
			if err := readAcks(strings.NewReader(said.String()), func(worker, commit int) { told[worker] = commit }); err != nil {
				t.Fatal(err)
			}
			if len(told) != workers {
				t.Errorf("%d workers were told of a commit, want %d", len(told), workers)
			}
			if err := check(dir, w.seed, told); err != nil {
				t.Fatal(err)
			}
			for name, wrong := range map[string]func(told acks, db *brock.DB) error{
				"nothing": func(acks, *brock.DB) error { return nil },
				"lost":    func(told acks, _ *brock.DB) error { told[1]++; return nil }, // told is what the store has
				"changed": func(_ acks, db *brock.DB) error { return db.Set([]byte(prefix(2)+"k0007"), []byte("wrong")) },
				"deleted": func(_ acks, db *brock.DB) error { return db.DeleteRange([]byte(prefix(3)+"k"), []byte(prefix(3)+"l")) },
				"added":   func(_ acks, db *brock.DB) error { return db.Set([]byte(prefix(4)+"z"), nil) },
			} {
				told := maps.Clone(told)
				err := wrongCopy(dir, w.seed, filepath.Join(t.TempDir(), "copy"), told, wrong)
				if fine := name == "nothing"; fine != (err == nil) {
					t.Errorf("%s: the check says %v", name, err)
				}
			}
		})
	}
}

// hears keeps what workers say, and calls all once it has heard of each of them.
type hears struct {
	strings.Builder
	of  map[string]bool
	all func()
}

// Write is called for one line of a worker, and for one at a time.
func (h *hears) Write(line []byte) (int, error) {
	worker, _, _ := strings.Cut(string(line), ":")
	if h.of[worker] = true; len(h.of) == workers {
		h.all()
	}
	return h.Builder.Write(line)
}

// wrongCopy copies a store, changes the copy, and checks it.
func wrongCopy(dir string, seed uint64, to string, told acks, wrong func(acks, *brock.DB) error) error {
	for _, suffix := range []string{"", ".values"} {
		if _, err := os.Stat(dir + suffix); err != nil {
			continue
		}
		if err := os.CopyFS(to+suffix, os.DirFS(dir+suffix)); err != nil {
			return err
		}
	}
	db, err := brock.Open(options(to, seed))
	if err != nil {
		return err
	}
	if err := errors.Join(wrong(told, db), db.Close()); err != nil {
		return err
	}
	return check(to, seed, told)
}

// TestCheckOfNothing: before the store was made, nothing may have been acknowledged.
func TestCheckOfNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if err := check(dir, 1, acks{}); err != nil {
		t.Error(err)
	}
	if err := check(dir, 1, acks{0: 1}); err == nil {
		t.Error("an acknowledged commit is missing, and the check does not find it")
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-mb", "1"}, {"more"}, {"-fs", "none"}, {"check", "-acks", "x"}} {
		if err := run(args, os.Stdout, new(strings.Builder)); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	if got, err := parseAcks(acks{3: 5, 1: 2}.String()); err != nil || got[3] != 5 || got[1] != 2 || len(got) != 2 {
		t.Errorf("acks are read as %v, %v", got, err)
	}
}
