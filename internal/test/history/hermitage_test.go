package history

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// simple is a Store that copies everything. It can check for less than a level
// demands, so that the cases fail.
type simple struct {
	now     int
	state   map[string]string
	changed map[string]int // when a key was last written
	checked func(level Levels) Levels
}

type simpleTxn struct {
	s      *simple
	level  Levels
	began  int
	view   map[string]string
	wrote  map[string]bool
	gets   map[string]bool
	ranges [][2]string
}

func newSimple(checked func(Levels) Levels) *simple {
	return &simple{state: map[string]string{"1": "10", "2": "20"}, changed: map[string]int{}, checked: checked}
}

func (s *simple) Begin(level Levels) (Session, error) {
	return &simpleTxn{s: s, level: level, began: s.now, view: maps.Clone(s.state),
		wrote: map[string]bool{}, gets: map[string]bool{}}, nil
}

func (x *simpleTxn) Get(key string) (string, error) {
	if !x.wrote[key] {
		x.gets[key] = true
	}
	return x.view[key], nil
}

func inRange(k, lo, hi string) bool { return k >= lo && (hi == "" || k < hi) }

func (x *simpleTxn) Scan(lo, hi string) ([]string, error) {
	x.ranges = append(x.ranges, [2]string{lo, hi})
	var out []string
	for _, k := range slices.Sorted(maps.Keys(x.view)) {
		if inRange(k, lo, hi) {
			out = append(out, k+"="+x.view[k])
		}
	}
	return out, nil
}

func (x *simpleTxn) Set(key, value string) error {
	x.view[key], x.wrote[key] = value, true
	return nil
}

func (x *simpleTxn) Delete(key string) error {
	delete(x.view, key)
	x.wrote[key] = true
	return nil
}

func (x *simpleTxn) Rollback() error { return nil }

func (x *simpleTxn) Commit() (bool, error) {
	if len(x.wrote) == 0 {
		return false, nil
	}
	level := x.s.checked(x.level)
	for k, at := range x.s.changed {
		if at <= x.began {
			continue
		}
		read := x.gets[k]
		for _, r := range x.ranges {
			read = read || inRange(k, r[0], r[1])
		}
		if level == Serializable && read || level == Snapshot && x.wrote[k] {
			return true, nil
		}
	}
	x.s.now++
	for k := range x.wrote {
		x.s.changed[k] = x.s.now
		if v, ok := x.view[k]; ok {
			x.s.state[k] = v
		} else {
			delete(x.s.state, k)
		}
	}
	return false, nil
}

var levels = []Levels{Serializable, Snapshot, LastWins}

func TestCasesHoldOnASimpleStore(t *testing.T) {
	for _, c := range Cases {
		for _, level := range levels {
			if err := c.Run(newSimple(func(l Levels) Levels { return l }), level); err != nil {
				t.Errorf("%s at %d: %v", c.Name, level, err)
			}
		}
	}
}

// The cases find a store that checks less, or something else, than a level demands.
func TestCasesTellLevelsApart(t *testing.T) {
	for _, asked := range levels {
		for _, given := range levels {
			failed := 0
			for _, c := range Cases {
				if c.Run(newSimple(func(Levels) Levels { return given }), asked) != nil {
					failed++
				}
			}
			if (failed > 0) != (asked != given) {
				t.Errorf("asked for %d, given %d: %d cases failed", asked, given, failed)
			}
		}
	}
}

func TestCaseReportsTheStep(t *testing.T) {
	c := Case{"", []Step{set(1, "1", "11"), commit(1), get(0, "1", "10")}}
	err := c.Run(newSimple(func(l Levels) Levels { return l }), Serializable)
	if want := `step 2, T0 get 1: got "11", want "10"`; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
