package importers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/brockdb/brock"
)

// Compared is the result of a compare.
type Compared struct {
	Pairs       int64        // compared: versions and deletes, if Options.History was set
	Bytes       int64        // of their keys and values
	Differences int64        // pairs, versions and keyspaces that differ
	First       []Difference // the first ones, maxDifferences at most
}

// Difference is one way in which source and store differ.
type Difference struct {
	Keyspace string
	Key      []byte // nil: of the keyspace as a whole
	What     string // such as "is not in the store"
}

// String returns a line for people. It has the key, but no value.
func (d Difference) String() string {
	switch {
	case d.Key != nil:
		return fmt.Sprintf("key %.60q%s %s", d.Key, inKeyspace(d.Keyspace), d.What)
	case d.Keyspace == "":
		return "the default keyspace " + d.What
	}
	return fmt.Sprintf("keyspace %.300q %s", d.Keyspace, d.What)
}

// maxDifferences is how many differences a compare keeps.
const maxDifferences = 10

// The ways in which a pair differs.
const (
	notInStore  = "is not in the store"
	notInSource = "is not in the source"
)

// Compare reads all pairs of the source and of the store, both in the order of their keys, and returns
// how they differ, and ErrDiffers if they do. Neither is changed; the store may be open elsewhere. Pairs
// that have expired count as deleted. Options.History compares all versions. What the library of the
// source needs to write goes to os.TempDir. With Options.Keyspace, other keyspaces don't matter.
func Compare(ctx context.Context, o Options) (_ *Compared, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := o.Store
	s.Mode = brock.ReadOnly
	db, err := brock.OpenContext(ctx, s)
	if errors.Is(err, brock.ErrLocked) {
		s.Mode = brock.Follow
		db, err = brock.OpenContext(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	defer cleanup(&err, db.Close)
	staged, err := os.MkdirTemp("", "brock-compare-")
	if err != nil {
		return nil, err
	}
	defer cleanup(&err, func() error { return os.RemoveAll(staged) })
	src, err := o.open(staged)
	if err != nil {
		return nil, err
	}
	defer cleanup(&err, src.close)
	i := &importing{Options: &o}
	if i.total, err = sizeOf(&o); err != nil {
		return nil, err
	}
	c := comparing{source: src, db: db, history: o.History, only: o.Keyspace != "", report: i.report}
	err = c.run(ctx)
	return &c.Compared, err
}

// comparing is a compare under way.
type comparing struct {
	Compared
	source  source
	db      *brock.DB
	history bool
	only    bool // the keyspaces of the source; others may have anything
	report  func(step string, done int64)
}

func (c *comparing) run(ctx context.Context) error {
	spaces, err := c.source.spaces(ctx)
	if err != nil {
		return err
	}
	there := make(map[string]*brock.Keyspace)
	for ks := range c.db.Keyspaces() {
		there[ks.Name()] = ks
	}
	err = c.db.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		hasDefault := false
		for _, s := range spaces {
			ks := there[s.name]
			hasDefault = hasDefault || s.name == ""
			if ks == nil && s.name != "" {
				c.differ(s.name, nil, notInStore)
				continue
			}
			delete(there, s.name)
			if err := c.compareSpace(ctx, txn.In(ks), s.name); err != nil {
				return err
			}
		}
		if c.only {
			return nil
		}
		if !hasDefault {
			if _, err := txn.First(nil, nil); !errors.Is(err, brock.ErrKeyNotFound) {
				c.differ("", nil, "has pairs, and the source has none")
			}
		}
		return c.compareNotes(txn, spaces, there)
	})
	if err != nil {
		return err
	}
	if c.only {
		clear(there)
	}
	for name := range there {
		c.differ(name, nil, notInSource)
	}
	if c.Differences > 0 {
		return ErrDiffers
	}
	return nil
}

func (c *comparing) differ(name string, key []byte, what string) {
	if c.Differences++; len(c.First) < maxDifferences {
		c.First = append(c.First, Difference{name, bytes.Clone(key), what})
	}
}

func (c *comparing) compareSpace(ctx context.Context, txn *brock.Txn, name string) error {
	it := txn.NewIterator(brock.IteratorOptions{AllVersions: c.history})
	defer func() { _ = it.Close() }() // its errors are those of Err
	it.Rewind()
	var err error
	if c.history {
		err = c.compareHistory(ctx, it)
	} else {
		err = c.compareNewest(ctx, it, name)
	}
	return errors.Join(err, it.Err())
}

// compareNewest walks source and store side by side.
func (c *comparing) compareNewest(ctx context.Context, it *brock.Iterator, name string) error {
	extra := func() {
		// It may have expired since the transaction began; the source is read later.
		if !expired(it.Item().ExpiresAt(), time.Now()) {
			c.differ(name, it.Item().Key(), notInSource)
		}
		it.Next()
	}
	err := c.source.scan(ctx, name, nil, func(p *pair) error {
		for it.Valid() && bytes.Compare(it.Item().Key(), p.key) < 0 {
			extra()
		}
		c.count(p)
		if !it.Valid() || !bytes.Equal(it.Item().Key(), p.key) {
			if it.Err() == nil && !expired(p.expiry(), time.Now()) {
				c.differ(name, p.key, notInStore)
			}
			return it.Err()
		}
		item := it.Item()
		value, err := item.Value()
		if err != nil {
			return err
		}
		switch {
		case !bytes.Equal(value, p.value):
			c.differ(name, p.key, "has another value")
		case item.Meta() != p.meta:
			c.differ(name, p.key, "has another meta byte")
		case !item.ExpiresAt().Equal(p.expiry()):
			c.differ(name, p.key, "expires at another time")
		}
		it.Next()
		return nil
	})
	for err == nil && it.Valid() {
		extra()
	}
	return err
}

func (c *comparing) count(p *pair) {
	c.Pairs++
	c.Bytes += int64(len(p.key) + len(p.value))
	c.report("compare", c.Bytes)
}

// aVersion is what is compared of one version: all of it, in little memory.
type aVersion struct {
	version uint64
	dead    bool // deleted, or expired: which of the two may change with time
	meta    byte
	expires int64
	value   [sha256.Size]byte
}

// keyHistory has the versions of one key, the newest first.
type keyHistory struct {
	key      []byte
	versions []aVersion
}

func (h *keyHistory) begin(key []byte) {
	h.key, h.versions = append(h.key[:0], key...), h.versions[:0]
}

func (h *keyHistory) add(version uint64, deleted bool, meta byte, expires time.Time, now time.Time, value func() ([]byte, error)) error {
	if n := len(h.versions); n > 0 && h.versions[n-1].version == version {
		return nil // an older copy of the same version
	}
	v := aVersion{version: version, dead: deleted || expired(expires, now)}
	if !v.dead {
		bytes, err := value()
		if err != nil {
			return err
		}
		v.meta, v.value = meta, sha256.Sum256(bytes)
		if !expires.IsZero() {
			v.expires = expires.Unix()
		}
	}
	h.versions = append(h.versions, v)
	return nil
}

// trim removes the oldest versions while they are dead: what hides nothing may be given up at any time.
func (h *keyHistory) trim() {
	for n := len(h.versions); n > 0 && h.versions[n-1].dead; n-- {
		h.versions = h.versions[:n-1]
	}
}

// compareHistory walks the versions of source and store side by side, key by key. The versions of one
// key are in memory, without their values.
func (c *comparing) compareHistory(ctx context.Context, it *brock.Iterator) error {
	now := time.Now() // one time for both, so that both see the same as expired
	var ours, theirs keyHistory
	// next reads the versions of the store's next key.
	next := func() (more bool, err error) {
		if !it.Valid() {
			return false, it.Err()
		}
		ours.begin(it.Item().Key())
		for ; it.Valid() && bytes.Equal(it.Item().Key(), ours.key); it.Next() {
			item := it.Item()
			if err := ours.add(item.Version(), item.Deleted(), item.Meta(), item.ExpiresAt(), now, item.Value); err != nil {
				return false, err
			}
		}
		ours.trim()
		return true, it.Err()
	}
	more, err := next()
	if err != nil {
		return err
	}
	// settle compares the versions of a key of the source.
	settle := func() (err error) {
		theirs.trim()
		for more && bytes.Compare(ours.key, theirs.key) < 0 {
			c.differVersions(ours.key, ours.versions, nil)
			if more, err = next(); err != nil {
				return err
			}
		}
		if !more || !bytes.Equal(ours.key, theirs.key) {
			c.differVersions(theirs.key, nil, theirs.versions)
			return nil
		}
		c.differVersions(theirs.key, ours.versions, theirs.versions)
		more, err = next()
		return err
	}
	begun := false
	err = c.source.history(ctx, func(p *pair) error {
		if !begun || !bytes.Equal(p.key, theirs.key) {
			if begun {
				if err := settle(); err != nil {
					return err
				}
			}
			begun = true
			theirs.begin(p.key)
		}
		c.count(p)
		return theirs.add(p.version, p.deleted, p.meta, p.expiry(), now, func() ([]byte, error) { return p.value, nil })
	})
	if err == nil && begun {
		err = settle()
	}
	for err == nil && more {
		c.differVersions(ours.key, ours.versions, nil)
		more, err = next()
	}
	return err
}

// differVersions notes how the versions of a key in the store and in the source differ.
func (c *comparing) differVersions(key []byte, ours, theirs []aVersion) {
	for len(ours) > 0 || len(theirs) > 0 {
		switch {
		case len(theirs) == 0 || len(ours) > 0 && ours[0].version > theirs[0].version:
			c.differ("", key, fmt.Sprintf("at version %d %s", ours[0].version, notInSource))
			ours = ours[1:]
		case len(ours) == 0 || ours[0].version < theirs[0].version:
			c.differ("", key, fmt.Sprintf("at version %d %s", theirs[0].version, notInStore))
			theirs = theirs[1:]
		default:
			if ours[0] != theirs[0] {
				c.differ("", key, fmt.Sprintf("at version %d is another pair", ours[0].version))
			}
			ours, theirs = ours[1:], theirs[1:]
		}
	}
}

// compareNotes compares what noteBuckets writes. Keyspaces that it has compared are deleted from there.
func (c *comparing) compareNotes(txn *brock.Txn, spaces []space, there map[string]*brock.Keyspace) error {
	for name, pairs := range notesOf(spaces) {
		want := make(map[string]string)
		for _, p := range pairs {
			want[p[0]] = p[1]
		}
		ks := there[name]
		if ks == nil {
			if len(want) > 0 {
				c.differ(name, nil, notInStore)
			}
			continue
		}
		delete(there, name)
		for item, err := range txn.In(ks).All() {
			if err != nil {
				return err
			}
			key := string(item.Key())
			value, err := item.Value()
			if err != nil {
				return err
			}
			if text, ok := want[key]; !ok {
				c.differ(name, item.Key(), notInSource)
			} else if text != string(value) {
				c.differ(name, item.Key(), "has another value")
			}
			delete(want, key)
		}
		for key := range want {
			c.differ(name, []byte(key), notInStore)
		}
	}
	return nil
}
