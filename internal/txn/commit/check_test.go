package commit

import (
	"errors"
	"testing"

	"github.com/brockdb/brock/internal/base/errs"
)

// A dropped keyspace refuses transactions that wrote to it, and is a conflict for those who
// only read it.
func TestCheckDropped(t *testing.T) {
	var kept, gone Keyspace
	gone.Dropped.Store(true)
	for _, test := range []struct {
		written, addressed *Keyspace
		want               error
	}{
		{&kept, &kept, nil},
		{&gone, &kept, errs.ErrKeyspaceNotFound},
		{&kept, &gone, errs.ErrConflict},
		{&gone, &gone, errs.ErrKeyspaceNotFound},
	} {
		var c Check
		for range 2 {
			c.Written.Add(test.written)
			c.Addressed.Add(test.addressed)
		}
		if got := c.Dropped(); !errors.Is(got, test.want) || c.Written.Len() != 1 || c.Addressed.Len() != 1 {
			t.Errorf("%v, want %v; %d written, %d addressed", got, test.want, c.Written.Len(), c.Addressed.Len())
		}
	}
}

func TestCheckAsksNothing(t *testing.T) {
	var none, some ReadSet
	some.AddKey([]byte("k"), 1)
	for _, test := range []struct {
		c    Check
		want bool
	}{
		{Check{}, true},
		{Check{Reads: &none}, true},
		{Check{Reads: &some}, false},
		{Check{Isolation: SnapshotIsolation}, false},
		{Check{Isolation: LastWriterWins, Reads: &some}, true},
	} {
		if got := test.c.AsksNothing(); got != test.want {
			t.Errorf("%+v asks nothing: %v", test.c, got)
		}
	}
}
