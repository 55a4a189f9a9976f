package debug

import (
	"bytes"
	"errors"
	"math/bits"
	"net/http"
	"time"

	"github.com/brockdb/brock"
)

// Limits of the answers about sizes.
const (
	maxParts   = 256 // parts of a prefix, one for each next byte
	maxNamed   = 80  // parts that end at a separator: if there are more, they are cut by bytes
	maxSampled = 32  // places at which shape looks
	perPlace   = 64  // versions that it reads at each
)

// separators are the bytes at which keys are usually cut.
const separators = "/:|#.\x00"

// sizePart is a part of the keys of a prefix.
type sizePart struct {
	Prefix  binary `json:"prefix"`
	Entries int64  `json:"entries"`
	Bytes   int64  `json:"bytes"`
	Key     bool   `json:"key,omitempty"` // it is a single key, not a prefix
}

// sizePage is how the bytes of a prefix are divided, by estimates.
type sizePage struct {
	Prefix  binary     `json:"prefix"` // that all keys of the one asked for have in common
	Entries int64      `json:"entries"`
	Bytes   int64      `json:"bytes"`
	Parts   []sizePart `json:"parts"` // in the order of keys
}

// sizes divides a prefix.
func (h *handler) sizes(r *http.Request) (any, error) {
	q := queryOf(r)
	prefix := q.bytes("prefix")
	ks, err := h.keyspace(q)
	if err != nil {
		return nil, err
	}
	p := &sizePage{Prefix: prefix, Parts: []sizePart{}}
	lo, hi := brock.PrefixRange(prefix)
	err = h.view(r.Context(), ks, 0, func(txn *brock.Txn) error {
		d := divider{txn: txn, ks: ks}
		first, last, err := d.ends(lo, hi)
		if first == nil || err != nil {
			return err
		}
		base := first[:commonLen(first, last)]
		p.Prefix = base
		if err = d.divide(base, first, hi, cutAtSeparator, maxNamed); errors.Is(err, errParts) {
			d.parts = d.parts[:0]
			err = d.divide(base, first, hi, cutAtByte, maxParts+1)
		}
		p.Parts = append(p.Parts, d.parts...)
		return err
	})
	if err != nil {
		return nil, err
	}
	p.Entries, p.Bytes = ks.EstimateSize(lo, hi)
	return p, nil
}

// divider finds the parts of a prefix, by seeks: it reads no keys in between.
type divider struct {
	txn   *brock.Txn
	ks    *brock.Keyspace
	parts []sizePart
}

var errParts = errors.New("too many parts")

// ends returns the first and the last key of a range; nil if it is empty.
func (d *divider) ends(lo, hi []byte) (first, last []byte, err error) {
	item, err := d.txn.First(lo, hi)
	if errors.Is(err, brock.ErrKeyNotFound) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	first = copyKey(item)
	if item, err = d.txn.Last(lo, hi); err != nil {
		return nil, nil, err
	}
	return first, copyKey(item), nil
}

// copyKey returns the key of an item, which is not nil if it is empty.
func copyKey(item *brock.Item) []byte { return append([]byte{}, item.Key()...) }

// divide cuts the keys from first up to hi, which have base in common, into parts. It returns errParts
// if there are more than most.
func (d *divider) divide(base, first, hi []byte, cut func(key []byte, n int) int, most int) error {
	for key := first; key != nil; {
		if len(d.parts) == most {
			return errParts
		}
		n := cut(key, len(base))
		part := key[:n:n]
		lo, end := brock.PrefixRange(part)
		if n == len(key) && n == len(base) { // the key that is the prefix of all others
			lo, end = part, append(bytes.Clone(part), 0)
		}
		if hi != nil && (end == nil || bytes.Compare(end, hi) > 0) {
			end = hi
		}
		_, last, err := d.ends(lo, end)
		if err != nil {
			return err
		}
		if last == nil { // can't be: key is in the range
			last = key
		}
		// Its keys may have more in common. That is a better name, and saves steps on the way down.
		s := sizePart{Prefix: key[:max(n, commonLen(key, last))], Key: bytes.Equal(key, last)}
		s.Entries, s.Bytes = d.ks.EstimateSize(lo, end)
		d.parts = append(d.parts, s)
		if end == nil {
			return nil
		}
		item, err := d.txn.First(end, hi)
		switch {
		case errors.Is(err, brock.ErrKeyNotFound):
			return nil
		case err != nil:
			return err
		}
		key = copyKey(item)
	}
	return nil
}

// cutAtSeparator returns the length of the part of a key that ends behind the first separator behind
// n, or the whole length.
func cutAtSeparator(key []byte, n int) int {
	if i := bytes.IndexAny(key[n:], separators); i >= 0 {
		return n + i + 1
	}
	return len(key)
}

// cutAtByte returns n and one.
func cutAtByte(key []byte, n int) int { return min(len(key), n+1) }

func commonLen(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// tally counts versions and their bytes, of keys and values.
type tally struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

func (t *tally) add(size int64) {
	t.Count++
	t.Bytes += size
}

// shapePage says what a sample of the versions of a keyspace is.
type shapePage struct {
	Places  int    `json:"places"` // from which the sample is
	Newest  tally  `json:"newest"` // versions that a read shows
	Older   tally  `json:"older"`  // history
	Deletes tally  `json:"deletes"`
	Expired tally  `json:"expired"`
	KeyMean int64  `json:"keyMean"` // bytes of a key
	Sizes   []int  `json:"sizes"`   // numbers of values: empty ones, then up to 1, 3, 7, 15 bytes and so on
	Entries int64  `json:"entries"` // estimate for all of the keyspace
	Bytes   int64  `json:"bytes"`
	Keeps   keeps  `json:"keeps"`
	Name    binary `json:"name"`
}

// shape samples a keyspace at some places of about equal distance. No value is read.
func (h *handler) shape(r *http.Request) (any, error) {
	q := queryOf(r)
	ks, err := h.keyspace(q)
	if err != nil {
		return nil, err
	}
	p := &shapePage{Sizes: []int{}, Keeps: keepsOf(ks.Options().Versions), Name: binary(ks.Name())}
	keyBytes, now := int64(0), time.Now()
	if o := h.db.Options(); o.Now != nil {
		now = o.Now()
	}
	err = h.view(r.Context(), ks, 0, func(txn *brock.Txn) error {
		places := append([][]byte{nil}, ks.Split(nil, nil, maxSampled)...)
		for i, lo := range places {
			var hi []byte
			if i+1 < len(places) {
				hi = places[i+1]
			}
			p.Places++
			var key []byte // whose newest version was seen
			for item, err := range txn.Items(brock.IteratorOptions{Lower: lo, Upper: hi, AllVersions: true, KeysOnly: true, Prefetch: -1, Limit: perPlace}) {
				if err != nil {
					return err
				}
				size := int64(len(item.Key())) + item.ValueSize()
				keyBytes += int64(len(item.Key()))
				newest := key == nil || !bytes.Equal(key, item.Key())
				key = append(key[:0], item.Key()...)
				if key == nil { // the empty key is none
					key = []byte{}
				}
				switch at := item.ExpiresAt(); {
				case item.Deleted():
					p.Deletes.add(size)
				case !newest:
					p.Older.add(size)
				case !at.IsZero() && !at.After(now):
					p.Expired.add(size)
				default:
					p.Newest.add(size)
					p.addSize(item.ValueSize())
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n := p.Newest.Count + p.Older.Count + p.Deletes.Count + p.Expired.Count; n > 0 {
		p.KeyMean = keyBytes / int64(n)
	}
	p.Entries, p.Bytes = ks.EstimateSize(nil, nil)
	return p, nil
}

// addSize counts a value in its bucket.
func (p *shapePage) addSize(size int64) {
	i := bits.Len64(uint64(size))
	for len(p.Sizes) <= i {
		p.Sizes = append(p.Sizes, 0)
	}
	p.Sizes[i]++
}
