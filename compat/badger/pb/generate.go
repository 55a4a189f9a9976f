// Package pb has the messages that cross Badger's API and make up its backup stream: KV and KVList,
// Match for Subscribe, DataKey of a KeyRegistry. They are the same on the wire as Badger's.
package pb

//go:generate protoc --go_out=. --go_opt=paths=source_relative brockbadger.proto
