package objects

import (
	"context"
	"errors"
	"io"

	"github.com/brockdb/brock"
)

// verifier is one Verify.
type verifier struct {
	*space
	txn    *brock.Txn
	report func(*DamageError)
	first  error
}

// note reports a problem, and returns nil; an error that is no damage it returns.
func (v *verifier) note(key []byte, part int64, err error) error {
	err = explainDamage(err, key, part, "can't be read")
	var d *DamageError
	if !errors.As(err, &d) {
		return err
	}
	if v.first == nil {
		v.first = d
	}
	if v.report != nil {
		v.report(d)
	}
	return nil
}

// verifyAll reads all objects and checks them.
func (s *space) verifyAll(ctx context.Context, report func(*DamageError)) error {
	if s.heads == nil {
		return errNotOpened
	}
	if ctx == nil {
		return errNilContext
	}
	v := &verifier{space: s, report: report}
	err := s.db.ViewContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		v.txn = txn
		return v.verifyHeads()
	})
	if err != nil {
		return err
	}
	return v.first
}

func (v *verifier) verifyHeads() error {
	count, unread := 0, false
	var failed error
	err := v.eachHead(v.txn, nil, func(key []byte, h *head, err error) bool {
		count++
		switch {
		case err != nil:
			unread = true
			failed = v.note(key, -1, err)
		case h.isMisplaced(key):
			failed = v.note(key, -1, &DamageError{Part: -1, Reason: "is not under its digest"})
		}
		if h != nil && failed == nil {
			failed = v.verifyContent(key, h)
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		// Damage among the keys: what comes behind it is not known, nor what has no head.
		return v.note(nil, -1, err)
	}
	problem := func(reason string) error { return v.note(nil, -1, &DamageError{Part: -1, Reason: reason}) }
	if err := v.verifyKeys(problem); err != nil {
		return err
	}
	if unread {
		return nil // the parts of heads that can't be read would look as if they had none
	}
	err = v.findOrphans(v.txn, count, orphanSearch{
		orphan:  func(objectID) { _ = problem("there are parts without a head") },
		twice:   func() { _ = problem("two heads have the same parts") },
		unknown: func() { _ = problem("there is a key that no part has") },
	})
	if err != nil {
		return v.note(nil, -1, err)
	}
	return nil
}

// verifyContent reads all parts of an object. An error of one part must not hide those of others.
func (v *verifier) verifyContent(key []byte, h *head) error {
	o := newObject(v.space, v.txn, key, h)
	_, err := io.Copy(io.Discard, o.Checked())
	if err == nil {
		return v.verifyRest(o)
	}
	if err := v.note(key, -1, err); err != nil {
		return err
	}
	d, ok := err.(*DamageError)
	if !ok || d.Part < 0 {
		return nil
	}
	var buf []byte
	for n := d.Part + 1; n < h.parts(); n++ {
		part, err := o.readPart(n, buf)
		if err == nil {
			buf = part
			continue
		}
		if err := v.note(key, n, err); err != nil {
			return err
		}
	}
	return v.verifyRest(o)
}

// verifyRest looks for keys among those of an object's parts that it does not have.
func (v *verifier) verifyRest(o *Object) error {
	it := o.parts.NewIterator(brock.IteratorOptions{Lower: o.head.id.partKey(0), Upper: o.head.id.pastParts(), KeysOnly: true, Prefetch: -1})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		_, n, ok := parsePartKey(it.Item().Key())
		if ok && n < o.head.parts() {
			continue
		}
		if err := v.note(o.key, -1, &DamageError{Part: -1, Reason: "has a part that is none of it"}); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return v.note(o.key, -1, err)
	}
	return nil
}

// verifyKeys looks for keys and marks that nobody writes.
func (v *verifier) verifyKeys(problem func(reason string) error) error {
	walk := func(lo, hi []byte, check func(item *brock.Item) error) error {
		for item, err := range v.txn.In(v.parts).Items(brock.IteratorOptions{Lower: lo, Upper: hi, KeysOnly: true}) {
			if err == nil {
				err = check(item)
			}
			if err != nil {
				if err := v.note(nil, -1, err); err != nil {
					return err
				}
			}
		}
		return nil
	}
	unknown := func(*brock.Item) error { return problem("there is a key that no part has") }
	bounds := [][]byte{{partPrefix}, {partPrefix + 1}, {stagedPrefix}, {stagedPrefix + 1}}
	if err := walk(nil, bounds[0], unknown); err != nil {
		return err
	}
	if err := walk(bounds[1], bounds[2], unknown); err != nil {
		return err
	}
	if err := walk(bounds[3], nil, unknown); err != nil {
		return err
	}
	return walk(bounds[2], bounds[3], func(item *brock.Item) error {
		value, err := item.ValueCopy(nil)
		if err == nil {
			_, _, err = decodeStaged(item.Key(), value)
		}
		return err
	})
}
