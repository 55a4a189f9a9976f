package typed

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/brockdb/brock"
)

// declaration is what the store knows of a table. It is stored as JSON.
type declaration struct {
	Parts map[string]string `json:"parts"` // what "key codec", "record codec" and each index are declared as
	// Numbers are in the keys of an index's entries. None is used again: what an index that is half
	// built has left is no other index's.
	Numbers  map[string]uint64 `json:"numbers"`            // by the name of the index
	Next     uint64            `json:"next"`               // the number after those that were ever given out
	Building uint64            `json:"building,omitempty"` // number of the Rebuild under way; writers leave marks for it
	Closed   bool              `json:"closed,omitempty"`   // it is about to switch: there are no writes

	raw string // as it is stored; "" if it is not
}

// declared returns the declaration of the Table itself; its numbers are those of a new table.
func (t *Table[K, R]) declared() *declaration {
	d := &declaration{Parts: map[string]string{"key codec": t.key.Name(), "record codec": t.record.Name()}, Numbers: map[string]uint64{}}
	for _, ix := range t.indexes {
		d.Parts[ix.part()] = fmt.Sprintf("%s, unique %v, version %d", ix.codec, ix.unique, ix.version)
		d.Numbers[ix.name] = d.Next
		d.Next++
	}
	return d
}

// listChanges says how d, of the store, differs from what a Table declares.
func (d *declaration) listChanges(now *declaration) (changes []string) {
	all := maps.Clone(d.Parts)
	maps.Copy(all, now.Parts)
	for _, part := range slices.Sorted(maps.Keys(all)) {
		if was, is := d.Parts[part], now.Parts[part]; was != is {
			changes = append(changes, fmt.Sprintf("%s was (%s) and is (%s)", part, was, is))
		}
	}
	return changes
}

// parseDeclaration returns what is stored. If the Table is declared otherwise, it also returns a
// *DeclarationError.
func (t *Table[K, R]) parseDeclaration(raw []byte) (*declaration, error) {
	// The same bytes nearly always: parsed once for a Table, not once for a call.
	if d := t.known.Load(); d != nil && d.raw == string(raw) {
		return d, nil
	}
	d := &declaration{raw: string(raw)}
	if err := json.Unmarshal(raw, d); err != nil || d.Parts == nil {
		return nil, fmt.Errorf("typed: declaration of table %q: %w", t.name, ErrDecode)
	}
	if changes := d.listChanges(t.declared()); len(changes) > 0 {
		return d, &DeclarationError{Table: t.name, Changes: changes}
	}
	t.known.Store(d)
	return d, nil
}

// storeDeclaration writes what the store is to know.
func (t *Table[K, R]) storeDeclaration(txn *brock.Txn, d *declaration) error {
	raw, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return txn.Set(t.at, raw)
}
