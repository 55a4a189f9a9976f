package kv

import (
	"fmt"
	"slices"
	"strings"
)

// Maker opens one kind of store.
type Maker struct {
	Name     string
	Module   string // module path, to find the version in use
	Version  string // of a store that is no Go module
	MinValue int    // a variant for values of at least this many bytes
	Setup    string // how it is opened and why, for the report
	Open     func(Config) (Store, error)
}

// Makers lists the stores in the order of the tables. The first that takes part
// is what the others are compared with.
func Makers() []Maker {
	return append([]Maker{
		{Name: "brock", Module: brockModule, Open: openBrock, Setup: brockSetup},
		{Name: "badger", Module: badgerModule, Open: openBadger, Setup: badgerSetup},
		{Name: "badger-log", Module: badgerModule, MinValue: badgerLogThreshold, Open: openBadgerLog, Setup: badgerLogSetup},
		{Name: "pebble", Module: pebbleModule, Open: openPebble, Setup: pebbleSetup},
		{Name: "pebble-sep", Module: pebbleModule, MinValue: pebbleBlobThreshold, Open: openPebbleSep, Setup: pebbleSepSetup},
		{Name: "bbolt", Module: bboltModule, Open: openBbolt, Setup: bboltSetup},
		{Name: "goleveldb", Module: leveldbModule, Open: openLevelDB, Setup: leveldbSetup},
	}, cgoMakers()...)
}

// Encrypted are stores that encrypt their files: the same adapters with a key. They run
// only where they are named.
func Encrypted() []Maker {
	return []Maker{
		{Name: "brock-encrypted", Module: brockModule, Open: openBrockEncrypted, Setup: brockEncryptedSetup},
		{Name: "badger-encrypted", Module: badgerModule, Open: openBadgerEncrypted, Setup: badgerEncryptedSetup},
	}
}

// Names lists the names of makers, with commas between.
func Names(makers []Maker) string {
	var names []string
	for _, m := range makers {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// Pick returns the makers of a comma-separated list of names, in the order of
// Makers, and then of Encrypted; "all" or nothing means every one of Makers.
func Pick(list string) ([]Maker, error) {
	all := Makers()
	if list == "" || list == "all" {
		return all, nil
	}
	names := strings.Split(list, ",")
	all = append(all, Encrypted()...)
	var picked []Maker
	for _, m := range all {
		if i := slices.Index(names, m.Name); i >= 0 {
			picked = append(picked, m)
			names = slices.Delete(names, i, i+1)
		}
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("no store %q, but %s", names[0], Names(all))
	}
	return picked, nil
}

// Open opens the store of that name.
func Open(name string, c Config) (Store, error) {
	for _, m := range append(append(Makers(), Encrypted()...), BadgerCollected()) {
		if m.Name == name {
			return m.Open(c)
		}
	}
	return nil, fmt.Errorf("no store %q", name)
}
