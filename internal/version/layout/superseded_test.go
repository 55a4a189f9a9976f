package layout

import (
	"math/rand/v2"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
)

// Whatever is counted, in whichever order, the steps are few, none ends before what it counts, and
// nothing is lost but what a number of versions keeps, of the smallest of very many keyspaces.
func TestAccount(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var a Account
		keyspaces, rising := 1+rng.IntN([]int{1, 5, 5000}[seed%3]), rng.IntN(2) == 0
		var added []Superseded
		for i := range 20_000 {
			s := Superseded{Keyspace: entry.KeyspaceID(rng.IntN(keyspaces)), Version: entry.Version(1 + rng.IntN(1e6)), Entries: 1, Bytes: 10, Separated: 100}
			if rising {
				s.Version = entry.Version(1 + i)
			}
			added = append(added, s)
			a.Add(s)
		}
		list := a.List()
		if len(list) > mostAccounts+2*mostSteps || keyspaces == 1 && len(list) < fewSteps/2 {
			t.Fatalf("seed %d: %d steps of %d keyspaces", seed, len(list), keyspaces)
		}
		for _, v := range []entry.Version{1, 1000, 500_000, 1e6} {
			var said, dead Superseded
			for i := range list {
				if list[i].Version <= v {
					said.Add(&list[i])
				}
			}
			for i := range added {
				if added[i].Version <= v {
					dead.Add(&added[i])
				}
			}
			if said.Separated > dead.Separated || v == 1e6 && (said.Separated != dead.Separated || said.Bytes != dead.Bytes || said.Entries != dead.Entries) {
				t.Fatalf("seed %d: up to %d %+v were replaced, the account says %+v", seed, v, dead, said)
			}
		}
	}
}
