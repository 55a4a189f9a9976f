package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/brockdb/brock"
)

// Series is a store of time series for many tenants. Each tenant has two keyspaces, so it has
// retention of its own, and is removed at once and whatever its size:
//
//	raw/TENANT    series, 0, time in ms   a point: float64
//	hour/TENANT   series, 0, hour in ms   what the points of the hour are: Hour
//
// Points expire by the keyspace's time to live: nothing has to look for them.
type Series struct {
	db         *brock.DB
	raw, hours time.Duration // how long points and hours are kept
	now        func() time.Time
}

// Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Hour sums the points of an hour up.
type Hour struct {
	Begin         time.Time
	Count         uint64
	Sum, Min, Max float64
}

// NewSeries returns the time series in db. Points are kept for the time raw, hours for hours.
func NewSeries(db *brock.DB, raw, hours time.Duration) *Series {
	return &Series{db, raw, hours, time.Now}
}

// tenant is the keyspaces of a tenant.
type tenant struct{ raw, hour *brock.Keyspace }

// tenant returns the keyspaces of a tenant, which are made if they are not there.
func (s *Series) tenant(name string) (t tenant, err error) {
	if t.raw, err = s.db.Keyspace("raw/"+name, brock.KeyspaceOptions{TTL: s.raw}); err != nil {
		return t, err
	}
	t.hour, err = s.db.Keyspace("hour/"+name, brock.KeyspaceOptions{TTL: s.hours})
	return t, err
}

// appendKey appends the key of a series at a time. A name has no zero byte, so no series lies within
// another one.
func appendKey(dst []byte, series string, at time.Time) []byte {
	dst = append(append(dst, series...), 0)
	return binary.BigEndian.AppendUint64(dst, uint64(at.UnixMilli()))
}

// parseKey is the opposite of appendKey.
func parseKey(key []byte) (series string, at time.Time, err error) {
	name, ms, ok := bytes.Cut(key, []byte{0})
	if !ok || len(ms) != 8 {
		return "", at, fmt.Errorf("timeseries: %x is no key of a point", key)
	}
	return string(name), time.UnixMilli(int64(binary.BigEndian.Uint64(ms))), nil
}

var errName = errors.New("timeseries: a series has a name, without a zero byte")

// Add writes points of a series, all or none, durably. A point at the same time is replaced. It
// expires when it is older than the time raw, which is why late points live shorter.
func (s *Series) Add(tenant, series string, points ...Point) error {
	if series == "" || bytes.IndexByte([]byte(series), 0) >= 0 {
		return errName
	}
	t, err := s.tenant(tenant)
	if err != nil {
		return err
	}
	b := s.db.NewBatch().In(t.raw)
	for _, p := range points {
		value := binary.LittleEndian.AppendUint64(nil, math.Float64bits(p.Value))
		e := brock.NewEntry(appendKey(nil, series, p.At), value).WithExpiry(p.At.Add(s.raw))
		if err := b.SetEntry(e); err != nil {
			return err
		}
	}
	_, err = b.Commit(context.Background(), brock.Synced)
	return err
}

// Points calls fn with the points of a series from from to to, without the one at to.
func (s *Series) Points(tenant, series string, from, to time.Time, fn func(Point) error) error {
	t, err := s.tenant(tenant)
	if err != nil {
		return err
	}
	return eachValue(t.raw, series, from, to, func(at time.Time, value []byte) error {
		if len(value) != 8 {
			return fmt.Errorf("timeseries: a point has %d bytes", len(value))
		}
		return fn(Point{at, math.Float64frombits(binary.LittleEndian.Uint64(value))})
	})
}

// Hours calls fn with the hours of a series from from to to, without the one that begins at to. It
// knows the points that the last Downsample has seen.
func (s *Series) Hours(tenant, series string, from, to time.Time, fn func(Hour) error) error {
	t, err := s.tenant(tenant)
	if err != nil {
		return err
	}
	return eachValue(t.hour, series, from, to, func(at time.Time, value []byte) error {
		h := Hour{Begin: at}
		if err := h.decode(value); err != nil {
			return err
		}
		return fn(h)
	})
}

// eachValue calls fn for each key of a series in a span of time.
func eachValue(ks *brock.Keyspace, series string, from, to time.Time, fn func(at time.Time, value []byte) error) error {
	return ks.View(func(txn *brock.Txn) error {
		it := txn.NewIterator(brock.IteratorOptions{Lower: appendKey(nil, series, from), Upper: appendKey(nil, series, to)})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			_, at, err := parseKey(it.Item().Key())
			if err != nil {
				return err
			}
			if err := it.Item().ValueFunc(func(value []byte) error { return fn(at, value) }); err != nil {
				return err
			}
		}
		return it.Err()
	})
}

// seenKey holds the version up to which Downsample has looked. No series has this name.
var seenKey = []byte{0}

// Downsample sums up the hours that have got points since the last call, late points too. It reads
// what is new and the hours that this concerns, nothing else.
func (s *Series) Downsample(ctx context.Context, tenant string) (hours int, err error) {
	t, err := s.tenant(tenant)
	if err != nil {
		return 0, err
	}
	err = s.db.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		hours = 0 // after a conflict this runs again
		changed, err := t.listChanged(txn)
		if err != nil {
			return err
		}
		for key := range changed {
			begin := hourOf([]byte(key))
			// Its points begin to expire: what was summed up before is nearer to the truth.
			if begin.Before(s.now().Add(-s.raw)) {
				continue
			}
			hours++
			if err := t.sumUp(txn, []byte(key), begin, s.hours); err != nil {
				return err
			}
		}
		seen := binary.LittleEndian.AppendUint64(nil, txn.ReadVersion())
		return txn.In(t.hour).SetEntry(brock.NewEntry(seenKey, seen).WithExpiry(forever))
	})
	return hours, err
}

var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// listChanged returns the keys of the hours that have got points.
func (t *tenant) listChanged(txn *brock.Txn) (map[string]bool, error) {
	var since uint64
	switch item, err := txn.In(t.hour).Get(seenKey); {
	case err == nil:
		seen, err := item.ValueCopy(nil)
		if err != nil {
			return nil, err
		}
		since = binary.LittleEndian.Uint64(seen)
	case err != brock.ErrKeyNotFound:
		return nil, err
	}
	changed := make(map[string]bool)
	// Untracked: points that come meanwhile are no conflict, as the next call sees them.
	it := txn.In(t.raw).NewIterator(brock.IteratorOptions{KeysOnly: true, Since: since, Untracked: true})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		series, at, err := parseKey(it.Item().Key())
		if err != nil {
			return nil, err
		}
		changed[string(appendKey(nil, series, at.Truncate(time.Hour)))] = true
	}
	return changed, it.Err()
}

// hourOf returns the time in a key of appendKey.
func hourOf(key []byte) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(key[len(key)-8:])))
}

// sumUp writes the hour of this key, which is kept for a time.
func (t *tenant) sumUp(txn *brock.Txn, key []byte, begin time.Time, kept time.Duration) error {
	upper := binary.BigEndian.AppendUint64(key[:len(key)-8:len(key)-8], uint64(begin.Add(time.Hour).UnixMilli()))
	h := Hour{Begin: begin, Min: math.Inf(1), Max: math.Inf(-1)}
	it := txn.In(t.raw).NewIterator(brock.IteratorOptions{Lower: key, Upper: upper, Untracked: true})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		err := it.Item().ValueFunc(func(value []byte) error {
			v := math.Float64frombits(binary.LittleEndian.Uint64(value))
			h.Count, h.Sum, h.Min, h.Max = h.Count+1, h.Sum+v, min(h.Min, v), max(h.Max, v)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil || h.Count == 0 { // its points have expired meanwhile
		return err
	}
	return txn.In(t.hour).SetEntry(brock.NewEntry(key, h.encode()).WithExpiry(begin.Add(kept)))
}

func (h *Hour) encode() (value []byte) {
	value = binary.LittleEndian.AppendUint64(value, h.Count)
	for _, v := range []float64{h.Sum, h.Min, h.Max} {
		value = binary.LittleEndian.AppendUint64(value, math.Float64bits(v))
	}
	return value
}

func (h *Hour) decode(value []byte) error {
	if len(value) != 32 {
		return fmt.Errorf("timeseries: an hour has %d bytes", len(value))
	}
	h.Count = binary.LittleEndian.Uint64(value)
	for i, v := range []*float64{&h.Sum, &h.Min, &h.Max} {
		*v = math.Float64frombits(binary.LittleEndian.Uint64(value[8+8*i:]))
	}
	return nil
}

// Drop removes a tenant and all its series.
func (s *Series) Drop(ctx context.Context, name string) error {
	t, err := s.tenant(name)
	if err != nil {
		return err
	}
	return errors.Join(t.raw.Drop(ctx), t.hour.Drop(ctx))
}
