package storetest

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/vfs"
)

// LayeredKeys is how many keys each keyspace of a layered store has.
const LayeredKeys = 3000

// MakeLayeredStore makes a store, and closes it, with a base run of all keys of three
// keyspaces and an upper run that has newer versions of some and deletes others. Every
// tenth value is separated.
func MakeLayeredStore(t *testing.T) (*vfs.Mem, brock.Options) {
	t.Helper()
	fsys := vfs.NewMem()
	o := brock.Options{Dir: "db", FS: fsys, Keys: DrawKeys(t), Maintenance: brock.Maintenance{IdleAfter: time.Hour}}
	db := assert.Must(brock.Open(o))
	for round := range 2 {
		for _, ks := range []*brock.Keyspace{nil, OpenKeyspace(t, db, "one"), OpenKeyspace(t, db, "two")} {
			assert.OK(t, db.Update(func(txn *brock.Txn) error {
				txn = txn.In(ks)
				for i := 0; i < LayeredKeys; i += 1 + round {
					if round == 1 && i%5 == 0 {
						assert.OK(t, txn.Delete(LayeredKey(i)))
						continue
					}
					assert.OK(t, txn.Set(LayeredKey(i), LayeredValue(i, round)))
				}
				return nil
			}))
		}
		if round == 0 {
			assert.OK(t, db.Compact(context.Background()))
		} else {
			assert.OK(t, db.Flush(context.Background()))
		}
	}
	assert.OK(t, db.Close())
	return fsys, o
}

// LayeredKey returns the key i of each keyspace.
func LayeredKey(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }

// LayeredValue returns the value of the key i that a round has written.
func LayeredValue(i, round int) []byte {
	n := 4
	if i%10 == 1 {
		n = 300 // separated
	}
	return bytes.Repeat(fmt.Appendf(nil, "%d/%d ", i, round), n)
}
