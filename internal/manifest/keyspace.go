package manifest

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/brockdb/brock/internal/entry"
)

// MaxKeyspaceName is the length of the longest name of a keyspace, in bytes.
const MaxKeyspaceName = 255

// firstKeyspace is the number of the first keyspace that has a name.
const firstKeyspace = uint64(entry.DefaultKeyspace) + 1

// Keyspace is a named part of the store. A keyspace that is dropped is no longer
// in the layout, and its number, which is below NextKeyspace, says for ever that
// whatever entries of it there still are belong to nobody.
type Keyspace struct {
	ID      entry.KeyspaceID
	Name    string
	Options KeyspaceOptions

	floor entry.Version
}

// KeyspaceOptions says how the entries of a keyspace are kept.
type KeyspaceOptions struct {
	ValueThreshold int64         // values of at least so many bytes stay out of the tree; <0 = none
	TTL            time.Duration // of entries that don't say; 0 = for ever
	Versions       int64         // newest versions of a key that are kept; 0 = the latest only
	Age            time.Duration // for which the whole state is kept; 0 = not at all
	Codec          int64         // of values; 0 = none
	CompressAbove  int64         // values of at least so many bytes are compressed
	Unknown        []TLV         // what this release doesn't know and must keep
}

// KeyspaceFloor is the version below which history of a keyspace may be gone.
type KeyspaceFloor struct {
	ID      entry.KeyspaceID
	Version entry.Version
}

// The fields of a keyspace's options.
const (
	tagThreshold = 1
	tagTTL       = 2
	tagVersions  = 3
	tagAge       = 4
	tagCodec     = 5
	tagCompress  = 6
)

func (o *KeyspaceOptions) append(b []byte) []byte {
	field := func(tag, flags uint16, n int64) {
		if n != 0 {
			b = appendTLV(b, tag, flags, func(b []byte) []byte { return binary.AppendVarint(b, n) })
		}
	}
	field(tagThreshold, 0, o.ValueThreshold)
	field(tagTTL, tlvRequired, int64(o.TTL))
	field(tagVersions, tlvRequired, o.Versions)
	field(tagAge, tlvRequired, int64(o.Age))
	field(tagCodec, 0, o.Codec)
	field(tagCompress, 0, o.CompressAbove)
	return appendUnknown(b, o.Unknown)
}

func decodeKeyspace(w *wire) Keyspace {
	k := Keyspace{ID: entry.KeyspaceID(w.uint32()), Name: string(w.bytes())}
	w.rest(k.Options.decodeField)
	return k
}

func (o *KeyspaceOptions) decodeField(tag uint16, required bool, value []byte) error {
	w := wire{p: value}
	switch tag {
	case tagThreshold:
		o.ValueThreshold = w.varint()
	case tagTTL:
		o.TTL = time.Duration(w.varint())
	case tagVersions:
		o.Versions = w.varint()
	case tagAge:
		o.Age = time.Duration(w.varint())
	case tagCodec:
		o.Codec = w.varint()
	case tagCompress:
		o.CompressAbove = w.varint()
	default:
		return keepUnknown(&o.Unknown, tag, required, value)
	}
	return w.end()
}

// Keyspaces lists the keyspaces that have a name, ascending by number.
func (l *Layout) Keyspaces() []Keyspace { return l.keyspaces }

// Keyspace finds a keyspace that has a name; nil if there is none.
func (l *Layout) Keyspace(id entry.KeyspaceID) *Keyspace {
	if i, ok := l.findKeyspace(id); ok {
		return &l.keyspaces[i]
	}
	return nil
}

// NextKeyspace is greater than the number of every keyspace there ever was.
func (l *Layout) NextKeyspace() uint64 { return l.nextKeyspace }

// Dropped reports whether there was a keyspace of this number, which is gone.
func (l *Layout) Dropped(id entry.KeyspaceID) bool {
	return id != entry.DefaultKeyspace && uint64(id) < l.nextKeyspace && l.Keyspace(id) == nil
}

// Floor is the version below which history of the keyspace may be gone.
func (k *Keyspace) Floor() entry.Version { return k.floor }

func (l *Layout) findKeyspace(id entry.KeyspaceID) (int, bool) {
	return slices.BinarySearchFunc(l.keyspaces, id, func(k Keyspace, id entry.KeyspaceID) int { return cmp.Compare(k.ID, id) })
}

// leastFloor is the version below which the history of all keyspaces may be gone.
func (l *Layout) leastFloor() entry.Version {
	least := l.floor
	for i := range l.keyspaces {
		least = min(least, l.keyspaces[i].floor)
	}
	return least
}

// changeKeyspaces adds, replaces and drops keyspaces. No number comes back.
func (l *Layout) changeKeyspaces(e *Edit) error {
	if len(e.SetKeyspaces) == 0 && len(e.DropKeyspaces) == 0 && len(e.KeyspaceFloors) == 0 && e.NextKeyspace == 0 {
		return nil
	}
	l.keyspaces = slices.Clone(l.keyspaces)
	unused := l.nextKeyspace
	for i := range e.SetKeyspaces {
		if err := l.setKeyspace(&e.SetKeyspaces[i], unused); err != nil {
			return err
		}
	}
	for _, id := range e.DropKeyspaces {
		at, found := l.findKeyspace(id)
		if !found {
			return conflicting("keyspace %d dropped, which is not there", id)
		}
		l.keyspaces = slices.Delete(l.keyspaces, at, at+1)
	}
	for _, f := range e.KeyspaceFloors {
		at, found := l.findKeyspace(f.ID)
		switch {
		case !found:
			return conflicting("the floor of keyspace %d rises, which is not there", f.ID)
		case f.Version < l.keyspaces[at].floor:
			return conflicting("the floor of keyspace %d goes back to %d after %d", f.ID, f.Version, l.keyspaces[at].floor)
		}
		l.keyspaces[at].floor = f.Version
	}
	if e.NextKeyspace > uint64(entry.MaxKeyspaceID)+1 {
		return conflicting("keyspace number %d", e.NextKeyspace)
	}
	l.nextKeyspace = max(l.nextKeyspace, e.NextKeyspace)
	return l.distinctNames(e)
}

func (l *Layout) setKeyspace(k *Keyspace, unused uint64) error {
	at, found := l.findKeyspace(k.ID)
	switch {
	case k.ID == entry.DefaultKeyspace || k.Name == "" || len(k.Name) > MaxKeyspaceName:
		return conflicting("keyspace %d has a name of %d bytes", k.ID, len(k.Name))
	case found:
		l.keyspaces[at].Name, l.keyspaces[at].Options = k.Name, k.Options
		return nil
	case uint64(k.ID) < unused:
		return conflicting("keyspace %d added, which was dropped", k.ID)
	}
	fresh := *k
	fresh.floor = 0
	l.keyspaces = slices.Insert(l.keyspaces, at, fresh)
	l.nextKeyspace = max(l.nextKeyspace, uint64(k.ID)+1)
	return nil
}

// distinctNames sees to it that no two keyspaces have one name; only those that
// the edit has set may be to blame.
func (l *Layout) distinctNames(e *Edit) error {
	set := make(map[string]entry.KeyspaceID, len(e.SetKeyspaces))
	for _, k := range e.SetKeyspaces {
		set[k.Name] = k.ID
	}
	for _, k := range l.keyspaces {
		if id, found := set[k.Name]; found && id != k.ID {
			return conflicting("keyspaces %d and %d have one name", k.ID, id)
		}
	}
	return nil
}
