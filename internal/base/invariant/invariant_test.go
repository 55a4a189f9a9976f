package invariant

import "testing"

func TestCheck(t *testing.T) {
	message := func(cond bool) (got any) {
		defer func() { got = recover() }()
		Check(cond, "%d runs, want %d", 2, 3)
		return nil
	}
	if got := message(true); got != nil {
		t.Errorf("a true condition panicked with %v", got)
	}
	var want any
	if Enabled {
		want = "brock: broken invariant: 2 runs, want 3"
	}
	if got := message(false); got != want {
		t.Errorf("a false condition: got %v, want %v", got, want)
	}
}
