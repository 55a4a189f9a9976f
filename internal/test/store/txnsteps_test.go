package store

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
)

// do does one step, and returns its result or the name of its error.
func (p *player) do(s step) string {
	if it := p.iterators[s.who]; it != nil {
		return p.move(it, s)
	}
	w := p.parse(s.words)
	for _, kind := range []func(step, words) (bool, string, error){p.write, p.read, p.handle, p.store} {
		if mine, result, err := kind(s, w); mine {
			if err != nil {
				return errorName(err)
			}
			return result
		}
	}
	p.t.Fatalf("unknown step %+v", s)
	return ""
}

// errorNames has the narrower error before the wider one.
var errorNames = []struct {
	name string
	err  error
}{
	{"ErrVersionMismatch", brock.ErrVersionMismatch},
	{"ErrConflict", brock.ErrConflict},
	{"ErrVersionGone", brock.ErrVersionGone},
	{"ErrKeyspaceNotFound", brock.ErrKeyspaceNotFound},
	{"ErrReadOnly", brock.ErrReadOnly},
	{"ErrTxnDone", brock.ErrTxnDone},
	{"ErrClosed", brock.ErrClosed},
	{"ErrInvalid", brock.ErrInvalid},
	{"-", brock.ErrKeyNotFound},
}

func errorName(err error) string {
	var option *brock.OptionError
	if errors.As(err, &option) {
		return "ErrInvalid: " + option.Field
	}
	for _, e := range errorNames {
		if errors.Is(err, e.err) {
			return e.name
		}
	}
	return err.Error()
}

// keyspace is the keyspace of a step; nil is the default one. It is not opened
// anew: a name stands for the same keyspace also after it was dropped.
func (p *player) keyspace(name string) *brock.Keyspace {
	if name == "" {
		return nil
	}
	ks := p.keyspaces[name]
	if ks == nil {
		ks = storetest.OpenKeyspace(p.t, p.db, name)
		p.keyspaces[name] = ks
	}
	return ks
}

// in calls fn with the step's transaction, or with one of its own.
func (p *player) in(s step, update bool, o brock.TxnOptions, fn func(txn *brock.Txn) error) error {
	ks := p.keyspace(s.keyspace)
	if txn := p.txns[s.who]; txn != nil {
		return fn(txn.In(ks))
	}
	switch {
	case ks != nil && update:
		return ks.Update(fn)
	case ks != nil && o.ReadAt == 0:
		return ks.View(fn)
	case update:
		return p.db.UpdateContext(p.t.Context(), o, func(txn *brock.Txn) error { return fn(txn.In(ks)) })
	}
	return p.db.ViewContext(p.t.Context(), o, func(txn *brock.Txn) error { return fn(txn.In(ks)) })
}

// target takes writes: a transaction, batch, writer, keyspace or store.
type target interface {
	Set(key, value []byte) error
	Delete(key []byte) error
}

func (p *player) target(s step) target {
	ks := p.keyspace(s.keyspace)
	switch {
	case p.txns[s.who] != nil:
		return p.txns[s.who].In(ks)
	case p.batches[s.who] != nil:
		return p.batches[s.who].In(ks)
	case p.writers[s.who] != nil:
		return p.writers[s.who]
	case ks != nil:
		return ks
	}
	return p.db
}

// write does the steps that write.
func (p *player) write(s step, w words) (mine bool, result string, err error) {
	switch s.verb {
	case "set", "delete":
		if s.who == "" && len(s.words) > 1 {
			return true, "", p.in(s, true, brock.TxnOptions{}, func(txn *brock.Txn) error { return writeAll(txn, s.words) })
		}
		return true, "", writeAll(p.target(s), s.words)
	case "entry":
		return true, "", p.in(s, true, brock.TxnOptions{}, func(txn *brock.Txn) error { return txn.SetEntry(p.entry(s.words[0], w)) })
	case "deleterange":
		type ranger interface{ DeleteRange(lo, hi []byte) error }
		return true, "", p.target(s).(ranger).DeleteRange(unquote(s.words[0]), unquote(s.words[1]))
	case "compareset", "comparedelete":
		type comparer interface {
			CompareAndSet(key, value []byte, version uint64) error
			CompareAndDelete(key []byte, version uint64) error
		}
		version, _ := strconv.ParseUint(s.words[1], 10, 64)
		to := p.target(s).(comparer)
		if k, v, found := strings.Cut(s.words[0], "="); found {
			return true, "", to.CompareAndSet(unquote(k), value(v), version)
		}
		return true, "", to.CompareAndDelete(unquote(s.words[0]), version)
	}
	return false, "", nil
}

// writeAll writes pairs KEY=VALUE, and deletes what is only a KEY.
func writeAll(to target, pairs []string) (err error) {
	for _, pair := range pairs {
		k, v, found := strings.Cut(pair, "=")
		if found {
			err = to.Set(unquote(k), value(v))
		} else {
			err = to.Delete(unquote(k))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *player) entry(pair string, w words) *brock.Entry {
	k, v, _ := strings.Cut(pair, "=")
	e := brock.NewEntry(unquote(k), value(v)).WithMeta(byte(w.number("meta")))
	if d := w.duration("ttl"); d != 0 {
		e.WithTTL(d)
	}
	if d := w.duration("expires"); d != 0 {
		e.WithExpiry(p.clock.Now().Add(d))
	}
	if w.has("latest") {
		e.WithOnlyLatest()
	}
	return e
}

// read does the steps that read.
func (p *player) read(s step, w words) (mine bool, result string, err error) {
	at := brock.TxnOptions{ReadAt: uint64(w.number("at"))}
	view := func(fn func(txn *brock.Txn) (string, error)) (bool, string, error) {
		err := p.in(s, false, at, func(txn *brock.Txn) error {
			result, err = fn(txn)
			return err
		})
		return true, result, err
	}
	switch s.verb {
	case "get":
		return view(func(txn *brock.Txn) (string, error) {
			it, err := txn.Get(unquote(s.words[0]))
			if err != nil {
				return "", err
			}
			v, err := it.Value()
			return text(v), err
		})
	case "has":
		return view(func(txn *brock.Txn) (string, error) {
			has, err := txn.Has(unquote(s.words[0]))
			return fmt.Sprint(has), err
		})
	case "meta":
		return view(func(txn *brock.Txn) (string, error) {
			it, err := txn.Get(unquote(s.words[0]))
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("meta %d, version %d, latest only %v, expires %v", it.Meta(), it.Version(), it.OnlyLatest(), p.until(it)), nil
		})
	case "getmany":
		return view(func(txn *brock.Txn) (string, error) { return getMany(txn, s.words) })
	case "versions":
		return view(func(txn *brock.Txn) (string, error) { return items(txn.Versions(unquote(s.words[0])), numbered) })
	case "scan":
		return view(func(txn *brock.Txn) (string, error) { return items(txn.Items(w.iterator()), item) })
	case "contents":
		return view(func(txn *brock.Txn) (string, error) {
			all, err := items(txn.All(), item)
			for ks := range p.db.Keyspaces() {
				text, kerr := items(txn.In(ks).All(), item)
				all += " | " + ks.Name() + ": " + text
				err = errors.Join(err, kerr)
			}
			return all, err
		})
	}
	return false, "", nil
}

// until is how long an item has until it expires.
func (p *player) until(it *brock.Item) string {
	if at := it.ExpiresAt(); !at.IsZero() {
		return "in " + at.Sub(p.clock.Now()).String()
	}
	return "never"
}

func getMany(txn *brock.Txn, names []string) (string, error) {
	var keys [][]byte
	for _, k := range names {
		keys = append(keys, unquote(k))
	}
	var out []string
	for it, err := range txn.GetMany(keys) {
		if err != nil {
			return "", err
		}
		if it == nil {
			out = append(out, "-")
			continue
		}
		out = append(out, item(it))
	}
	return strings.Join(out, " "), nil
}

// items shows items in their order, and the error that ends them.
func items(seq iter.Seq2[*brock.Item, error], show func(*brock.Item) string) (string, error) {
	var out []string
	for it, err := range seq {
		if err != nil {
			return "", err
		}
		out = append(out, show(it))
	}
	if out == nil {
		return "nothing", nil
	}
	return strings.TrimSuffix(strings.Join(out, " "), ","), nil
}

// item shows a key and its value, KEY! for a delete.
func item(it *brock.Item) string {
	if it.Deleted() {
		return text(it.Key()) + "!"
	}
	v, err := it.Value()
	if err != nil {
		return text(it.Key()) + ": " + errorName(err)
	}
	return text(it.Key()) + "=" + text(v)
}

// numbered shows a version of a key and its value; version 0 is not committed yet.
func numbered(it *brock.Item) string {
	return fmt.Sprintf("%d: %s,", it.Version(), item(it))
}

// text is a key or value as scripts write it.
func text(v []byte) string {
	if n := len(v); n > 16 && strings.Count(string(v), string(v[:1])) == n {
		return fmt.Sprintf("%c@%d", v[0], n)
	}
	return strings.Trim(strconv.Quote(string(v)), `"`)
}

// move moves an iterator, and shows where it is then.
func (p *player) move(it *brock.Iterator, s step) string {
	switch s.verb {
	case "rewind":
		it.Rewind()
	case "seek":
		it.Seek(unquote(s.words[0]))
	case "next":
		it.Next()
	case "prev":
		it.Prev()
	case "close":
		delete(p.iterators, s.who)
		assert.OK(p.t, it.Close())
		return ""
	default:
		p.t.Fatalf("unknown step of an iterator: %+v", s)
	}
	switch {
	case it.Err() != nil:
		return errorName(it.Err())
	case !it.Valid():
		return "end"
	}
	return item(it.Item())
}
