//go:build !race

package badger

const isRace = false
