//go:build race

package badger

const isRace = true // pools forget at random then
