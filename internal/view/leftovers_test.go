package view

import (
	"testing"

	"github.com/brockdb/brock/internal/lsm/run"
)

// A crash leaves files of this store, or empty ones. Others must stay.
func TestHeaderIsOurs(t *testing.T) {
	uuid := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	mine := append([]byte("BROCK"), uuid[:]...)
	for _, c := range []struct {
		name string
		head []byte
		ours bool
	}{
		{"empty", nil, true},
		{"zeros", make([]byte, 64), true},
		{"this store", mine, true},
		{"cut short", mine[:len(mine)-1], false},
		{"another program", []byte("some text"), false},
	} {
		if got := headerIsOurs(c.head, uuid); got != c.ours {
			t.Errorf("%s: ours = %v, want %v", c.name, got, c.ours)
		}
	}
}

func TestFilterKeysFollowMemory(t *testing.T) {
	if FilterKeys(0) != run.DefaultFilterKeys || FilterKeys(1) != 1<<12 || FilterKeys(1<<50) != run.DefaultFilterKeys {
		t.Errorf("filter keys: %d, %d, %d", FilterKeys(0), FilterKeys(1), FilterKeys(1<<50))
	}
}
