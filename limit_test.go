package brock

import "testing"

// Values of a megabyte are separated even where the threshold says never.
func TestHugeValuesAreAlwaysSeparated(t *testing.T) {
	db := openTest(t, Options{KeyspaceDefaults: KeyspaceOptions{ValueThreshold: -1}})
	must(t, db.Set(b("huge"), make([]byte, maxInline)))
	must(t, db.Set(b("big"), make([]byte, maxInline-1)))
	wantEqual(t, "huge", db.main.encoder.Load().separates(&write{value: make([]byte, maxInline)}), true)
	must(t, db.Compact(t.Context()))
	for key, size := range map[string]int{"huge": maxInline, "big": maxInline - 1} {
		v, err := db.Get(b(key))
		must(t, err)
		wantEqual(t, key, len(v), size)
	}
	must(t, db.Verify(t.Context(), nil))
}
