package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// collectEvery is how often Badger's collection is called. Its documents have it
// called every few minutes, until it finds nothing; these runs last less.
const (
	collectEvery = 5 * time.Second
	collectShare = 0.5 // of a log file that must be garbage, as in its documents
)

// spaceMakers are the stores whose space can be looked at: all, and Badger with
// its collection called.
func spaceMakers() []Maker {
	return append(Makers(), Maker{Name: "badger-log-gc", Module: badgerModule, MinValue: badgerLogThreshold, Open: openBadgerCollected})
}

// collectedBadger is a Badger store whose log is collected now and then.
type collectedBadger struct {
	*badgerStore
	stop, stopped chan struct{}
}

func openBadgerCollected(c Config) (Store, error) {
	s, err := openBadgerLog(c)
	if err != nil {
		return nil, err
	}
	b := &collectedBadger{badgerStore: s.(*badgerStore), stop: make(chan struct{}), stopped: make(chan struct{})}
	go b.run()
	return b, nil
}

func (b *collectedBadger) run() {
	defer close(b.stopped)
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-tick.C:
		}
		for b.db.RunValueLogGC(collectShare) == nil {
			select {
			case <-b.stop:
				return
			default:
			}
		}
	}
}

// Close ends the collection first.
func (b *collectedBadger) Close() error {
	close(b.stop)
	<-b.stopped
	return b.badgerStore.Close()
}

// spaceStore is a store under test; ratio is Brock's Maintenance.GarbageRatio.
type spaceStore struct {
	Maker
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
