package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/brockdb/brock/bench/internal/kv"
)

// spaceMakers are the stores whose space can be looked at: all, and Badger with
// its collection called.
func spaceMakers() []kv.Maker { return append(kv.Makers(), kv.BadgerCollected()) }

// spaceStore is a store under test; ratio is Brock's Maintenance.GarbageRatio.
type spaceStore struct {
	kv.Maker
	label string
	ratio float64
}

// pickSpaceStores reads a list of stores. Brock takes part once for each ratio,
// if there are any.
func pickSpaceStores(list, ratios string) ([]spaceStore, error) {
	var picked []spaceStore
	all := spaceMakers()
	for name := range strings.SplitSeq(list, ",") {
		found := false
		for _, m := range all {
			if m.Name != name && list != "all" {
				continue
			}
			found = true
			if m.Name != "brock" || ratios == "" {
				picked = append(picked, spaceStore{Maker: m, label: m.Name})
				continue
			}
			for r := range strings.SplitSeq(ratios, ",") {
				ratio, err := strconv.ParseFloat(r, 64)
				if err != nil {
					return nil, errors.New("-ratios: " + err.Error())
				}
				picked = append(picked, spaceStore{Maker: m, label: fmt.Sprintf("brock %v", ratio), ratio: ratio})
			}
		}
		if !found {
			return nil, fmt.Errorf("no store %q", name)
		}
	}
	return picked, nil
}

// applier returns s as a store that writes batches. If s can't, each call returns an error.
func applier(s kv.Store) kv.Batcher {
	if b, ok := s.(kv.Batcher); ok {
		return b
	}
	return noBatches{}
}

type noBatches struct{}

func (noBatches) Apply([]kv.Change) error { return errNoBatches }
