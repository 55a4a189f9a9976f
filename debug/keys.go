package debug

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/brockdb/brock"
)

// Limits of the answers about keys.
const (
	usualKeys      = 50
	maxKeys        = 500
	maxKeyspaces   = 200
	maxHistory     = 500
	maxKeyBytes    = 1 << 20  // bytes of keys in one answer, but for a first key that is larger
	maxValue       = 64 << 10 // bytes of a value in one answer
	maxShown       = 16 << 20 // bytes of a value of which parts are shown
	estimateWithin = 300 * time.Millisecond
)

// keyspaceRow describes a keyspace. Sizes are estimates, -1 = not looked at.
type keyspaceRow struct {
	Name    binary  `json:"name"` // empty: the default one
	Entries int64   `json:"entries"`
	Bytes   int64   `json:"bytes"`
	TTL     float64 `json:"ttl,omitempty"` // seconds
	Keeps   keeps   `json:"keeps"`
}

// keyspacePage is a part of the list of keyspaces.
type keyspacePage struct {
	Keyspaces []keyspaceRow `json:"keyspaces"`
	Total     int           `json:"total"` // that match, the default one included
	More      bool          `json:"more"`  // there are some behind the last
	Measured  int           `json:"measured"`
}

// keyspaces lists keyspaces by name behind one, or by size, the largest first.
func (h *handler) keyspaces(r *http.Request) (any, error) {
	q := queryOf(r)
	limit, order := q.number("limit", usualKeys, 1, maxKeyspaces), q.choice("by", "name", "size")
	after, contains := q.bytes("after"), string(q.bytes("contains"))
	if q.err != nil {
		return nil, q.err
	}
	if _, err := h.db.Refresh(r.Context()); err != nil {
		return nil, err
	}
	var all []*brock.Keyspace
	if contains == "" {
		all = append(all, h.db.Default())
	}
	for ks := range h.db.Keyspaces() {
		if strings.Contains(ks.Name(), contains) {
			all = append(all, ks)
		}
	}
	p := &keyspacePage{Keyspaces: []keyspaceRow{}, Total: len(all)}
	if order == "size" {
		return p, h.largest(r.Context(), all, limit, p)
	}
	for _, ks := range all {
		if after != nil && ks.Name() <= string(after) {
			continue
		}
		if len(p.Keyspaces) == limit {
			p.More = true
			break
		}
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		p.Keyspaces = append(p.Keyspaces, describeKeyspace(ks))
		p.Measured++
	}
	return p, nil
}

func describeKeyspace(ks *brock.Keyspace) keyspaceRow {
	o := ks.Options()
	entries, size := ks.EstimateSize(nil, nil)
	return keyspaceRow{binary(ks.Name()), entries, size, o.TTL.Seconds(), keepsOf(o.Versions)}
}

// largest fills in the largest keyspaces, of those that can be measured within a short time.
func (h *handler) largest(ctx context.Context, all []*brock.Keyspace, limit int, p *keyspacePage) error {
	end := time.Now().Add(estimateWithin)
	for _, ks := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.Measured >= limit && time.Now().After(end) {
			break
		}
		p.Measured++
		row := describeKeyspace(ks)
		i := len(p.Keyspaces)
		for i > 0 && p.Keyspaces[i-1].Bytes < row.Bytes {
			i--
		}
		p.Keyspaces = append(p.Keyspaces[:i], append([]keyspaceRow{row}, p.Keyspaces[i:]...)...)
		p.Keyspaces = p.Keyspaces[:min(limit, len(p.Keyspaces))]
	}
	p.More = p.Total > len(p.Keyspaces)
	return nil
}

// row describes one version of a key, without its value.
type row struct {
	Key     *binary `json:"key,omitempty"`
	Version uint64  `json:"version"`
	Size    int64   `json:"size"` // of the value
	Meta    byte    `json:"meta,omitempty"`
	Expires int64   `json:"expires,omitempty"`
	Deleted bool    `json:"deleted,omitempty"`
	Latest  bool    `json:"onlyLatest,omitempty"`
	By      int64   `json:"by,omitempty"` // of the history: committed before that time
}

func rowOf(item *brock.Item) row {
	return row{Version: item.Version(), Size: item.ValueSize(), Meta: item.Meta(), Expires: milliseconds(item.ExpiresAt()), Deleted: item.Deleted(), Latest: item.OnlyLatest()}
}

// keyPage is a part of the keys of a prefix, in their order.
type keyPage struct {
	Version uint64 `json:"version"` // that was read
	Keys    []row  `json:"keys"`
	Before  bool   `json:"before"` // there are keys of the prefix before the first
	Behind  bool   `json:"behind"` // and behind the last
}

// keys lists keys of a prefix: from a key on (from, inclusive), or those before one (before,
// exclusive).
func (h *handler) keys(r *http.Request) (any, error) {
	q := queryOf(r)
	limit, prefix, from, before := q.number("limit", usualKeys, 1, maxKeys), q.bytes("prefix"), q.bytes("from"), q.bytes("before")
	last, at := q.choice("end", "first", "last") == "last", q.version("at")
	ks, err := h.keyspace(q)
	if err != nil {
		return nil, err
	}
	p := &keyPage{Keys: []row{}}
	err = h.view(r.Context(), ks, at, func(txn *brock.Txn) error {
		p.Version = txn.ReadVersion()
		back := last || before != nil
		o := brock.IteratorOptions{Prefix: prefix, KeysOnly: true, Reverse: back, Prefetch: -1, Limit: limit}
		if before != nil {
			if len(before) == 0 { // no key is before the empty one
				return lookAround(txn, prefix, p)
			}
			o.Upper = before
		} else if from != nil && !last {
			o.Lower = from
		}
		size := 0
		for item, err := range txn.Items(o) {
			if err != nil {
				return err
			}
			if size += len(item.Key()); len(p.Keys) > 0 && size > maxKeyBytes {
				break
			}
			row, key := rowOf(item), binary(item.KeyCopy(nil))
			row.Key = &key
			p.Keys = append(p.Keys, row)
		}
		if back {
			slices.Reverse(p.Keys)
		}
		return lookAround(txn, prefix, p)
	})
	return p, err
}

// lookAround finds out whether there are keys before and behind those of a page. An empty page tells
// of none: the client asks again from the first.
func lookAround(txn *brock.Txn, prefix []byte, p *keyPage) error {
	lo, hi := brock.PrefixRange(prefix)
	if len(p.Keys) == 0 {
		var err error
		p.Before, err = exists(txn.First(lo, hi))
		return err
	}
	first, last := *p.Keys[0].Key, *p.Keys[len(p.Keys)-1].Key
	var err error
	if len(first) > 0 { // as a bound, the empty key would be none
		if p.Before, err = exists(txn.First(lo, first)); err != nil {
			return err
		}
	}
	p.Behind, err = exists(txn.First(append(bytes.Clone(last), 0), hi))
	return err
}

// exists reports whether a search has found something.
func exists(_ *brock.Item, err error) (bool, error) {
	if errors.Is(err, brock.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

// historyPage is what is kept of one key, the newest version first.
type historyPage struct {
	Key      binary `json:"key"`
	Versions []row  `json:"versions"`
	More     bool   `json:"more"` // there are older ones
}

// history lists the versions of a key that are older than one (before).
func (h *handler) history(r *http.Request) (any, error) {
	q := queryOf(r)
	limit, key, before := q.number("limit", usualKeys, 1, maxHistory), q.bytes("key"), q.version("before")
	ks, err := h.keyspace(q)
	if err != nil {
		return nil, err
	}
	p := &historyPage{Key: key, Versions: []row{}}
	err = h.view(r.Context(), ks, 0, func(txn *brock.Txn) error {
		for item, err := range txn.Versions(key) {
			if err != nil {
				return err
			}
			if before != 0 && item.Version() >= before {
				continue
			}
			if len(p.Versions) == limit {
				p.More = true
				return nil
			}
			p.Versions = append(p.Versions, rowOf(item))
		}
		return nil
	})
	for i := range p.Versions {
		p.Versions[i].By = h.committedBy(p.Versions[i].Version, time.Now())
	}
	return p, err
}

// clockDays is how far back the time of a version is looked for.
const clockDays = 3650

// committedBy returns the first time, in milliseconds since 1970, of which the store knows that a
// version was committed before it. It is exact to a second, as far as the store has noted times; 0 is
// for a version that is newer than all of these, or of another clock.
func (h *handler) committedBy(version uint64, now time.Time) int64 {
	isKnown := func(seconds int) bool { // of a time so long ago
		v, err := h.db.VersionAt(now.Add(-time.Duration(seconds) * time.Second))
		return err == nil && v >= version
	}
	// VersionAt rises with the time: the longest time ago at which it has come to the version.
	first := sort.Search(clockDays*86400, func(seconds int) bool { return !isKnown(seconds + 1) })
	if first == 0 {
		return 0
	}
	return now.Add(-time.Duration(first) * time.Second).UnixMilli()
}

var errHidden = errors.New("values are hidden: the program that serves this page has not given debug.Values")

// valuePage is a part of a value.
type valuePage struct {
	row
	Offset    int64           `json:"offset"`
	Data      binary          `json:"data"`
	Decoded   json.RawMessage `json:"decoded,omitempty"` // by the program's decoder
	Undecoded string          `json:"undecoded,omitempty"`
}

// value answers with a part of a value, of the newest version or of a given one.
func (h *handler) value(r *http.Request) (any, error) {
	if !h.values {
		return nil, errHidden
	}
	q := queryOf(r)
	key, version := q.bytes("key"), q.version("version")
	offset, limit := q.number("offset", 0, 0, brock.MaxValueSize), q.number("limit", 4096, 1, maxValue)
	ks, err := h.keyspace(q)
	if err != nil {
		return nil, err
	}
	p := new(valuePage)
	err = h.view(r.Context(), ks, 0, func(txn *brock.Txn) error {
		return findVersion(txn, key, version, func(item *brock.Item) error {
			if p.row = rowOf(item); p.Deleted {
				return nil
			}
			if p.Size > maxShown {
				return faultf("the value has %d bytes: the page shows none above %d", p.Size, maxShown)
			}
			value, err := item.ValueCopy(nil)
			if err != nil {
				return err
			}
			p.Offset = min(int64(offset), int64(len(value)))
			p.Data = value[p.Offset:min(int64(len(value)), p.Offset+int64(limit))]
			if d := h.findDecoder(ks.Name(), key); d != nil && offset == 0 {
				// A copy: a decoder may change it, whatever it is told.
				if p.Decoded, err = d.run(bytes.Clone(value)); err != nil {
					p.Undecoded = err.Error()
				}
			}
			return nil
		})
	})
	return p, err
}

// findVersion calls fn with the newest version of a key, or with a given one.
func findVersion(txn *brock.Txn, key []byte, version uint64, fn func(*brock.Item) error) error {
	if version == 0 {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		return fn(item)
	}
	for item, err := range txn.Versions(key) {
		if err != nil {
			return err
		}
		if item.Version() == version {
			return fn(item) // within the loop: behind it the item is not valid
		}
		if item.Version() < version {
			break
		}
	}
	return fmt.Errorf("version %d of the key is not kept: %w", version, brock.ErrVersionGone)
}
