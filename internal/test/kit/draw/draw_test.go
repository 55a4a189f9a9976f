package draw

import (
	"fmt"
	"slices"
	"testing"
)

// fake is a test that fails if it is told to.
type fake struct {
	testing.TB
	name   string
	failed bool
	ends   []func()
	log    string
}

func (f *fake) Name() string      { return f.name }
func (f *fake) Failed() bool      { return f.failed }
func (f *fake) Cleanup(fn func()) { f.ends = append(f.ends, fn) }
func (f *fake) Logf(format string, args ...any) {
	f.log += fmt.Sprintf(format, args...)
}

func (f *fake) end() {
	for _, fn := range f.ends {
		fn()
	}
}

// draws is what a test of this name draws in one run.
func draws(name string, subtests ...string) (all []uint64) {
	f := &fake{name: name}
	defer f.end()
	coin := Coin(f)
	all = append(all, Seed(f), Seed(f), Rand(f).Uint64())
	for _, sub := range subtests {
		s := &fake{name: name + "/" + sub}
		all = append(all, Seed(s))
		s.end()
	}
	if Coin(f) != coin {
		all = nil
	}
	return all
}

func TestSameEnvironmentSameDraws(t *testing.T) {
	t.Setenv("BROCK_SEED", "any text")
	first := draws("TestA", "b", "c")
	if again := draws("TestA", "b", "c"); !slices.Equal(first, again) {
		t.Errorf("%v, then %v", first, again)
	}
	if alone := draws("TestA", "c"); alone[3] != first[4] {
		t.Errorf("a subtest draws %d beside others, %d alone", first[4], alone[3])
	}
	all := append(first, draws("TestB")...)
	t.Setenv("BROCK_SEED", "another")
	all = append(all, draws("TestA", "b")...)
	slices.Sort(all)
	if n := len(all); n != 12 || len(slices.Compact(all)) != n {
		t.Errorf("a number was drawn twice: %v", all)
	}
}

func TestFailureNamesTheSeed(t *testing.T) {
	t.Setenv("BROCK_SEED", "")
	test := &fake{name: "TestA"}
	sub := &fake{name: "TestA/b", failed: true}
	one, other := Seed(test), Seed(sub)
	sub.end()
	var text string
	if _, err := fmt.Sscanf(sub.log, "BROCK_SEED=%s draws", &text); err != nil {
		t.Fatalf("log %q: %v", sub.log, err)
	}
	if test.end(); test.log != "" {
		t.Errorf("a test that passed logs %q", test.log)
	}
	anew := &fake{name: "TestA"}
	if Seed(anew) == one {
		t.Error("the next run draws the same")
	}
	anew.end()
	t.Setenv("BROCK_SEED", text)
	test, sub = &fake{name: "TestA"}, &fake{name: "TestA/b"}
	if Seed(test) != one || Seed(sub) != other {
		t.Error("the seed that was logged draws something else")
	}
	test.end()
	sub.end()
	if len(families) > 0 {
		t.Errorf("not forgotten: %v", families)
	}
}

func TestCoinHasTwoSides(t *testing.T) {
	yes := 0
	for i := range 1000 {
		f := &fake{name: fmt.Sprint("Test", i)}
		if Coin(f) {
			yes++
		}
		f.end()
	}
	if yes < 300 || yes > 700 {
		t.Errorf("%d of 1000", yes)
	}
}
