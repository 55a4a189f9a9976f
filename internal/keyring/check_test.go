package keyring

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/brockdb/brock/internal/crypt"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/vfs"
)

// errsOnce answers one UnwrapKey, counted from 1, with another key.
type errsOnce struct {
	Provider
	calls, wrong int
}

func (e *errsOnce) UnwrapKey(ctx context.Context, wrapped, binding []byte) ([]byte, error) {
	key, err := e.Provider.UnwrapKey(ctx, wrapped, binding)
	if e.calls++; err == nil && e.calls == e.wrong {
		key = bytes.Clone(key)
		key[31] ^= 0x40
	}
	return key, err
}

// encodeUnchecked is Encode of version 1, which has no check values.
func (c *Content) encodeUnchecked() []byte {
	var p []byte
	for range 2 {
		offset := int64(len(p))
		one := c.encodeCopy(offset)[:headerSize]
		for _, k := range c.Keys {
			k.Check = crypt.Check{}
			alone := Content{UUID: c.UUID, Number: c.Number, Keys: []Key{k}}
			header := alone.encodeCopy(0)[headerSize:][:checkAt]
			one = fill(append(append(one, header...), k.Wrapped...), 8)
		}
		one[8] = unchecked
		binary.LittleEndian.PutUint32(one[12:], uint32(len(one)))
		binary.LittleEndian.PutUint32(one[sumAt:], c.sum(offset, one))
		p = append(p, fill(one, pageSize)...)
	}
	return p
}

// TestUncheckedKeyring: a keyring of version 1 is read, and what it says is written again as
// version 2.
func TestUncheckedKeyring(t *testing.T) {
	c := goldenContent()
	got, wrong := Decode(c.encodeUnchecked(), testUUID, c.Number)
	for i := range c.Keys {
		c.Keys[i].Check = crypt.Check{}
	}
	if got == nil || len(wrong) > 0 || !same(got, c) {
		t.Errorf("read %+v, %v", got, wrong)
	}
}

// TestOneWrongAnswer: one wrong answer of the provider, whichever it is, is an error at most. It
// never gets into the keyring, and is not kept in memory.
func TestOneWrongAnswer(t *testing.T) {
	for name, change := range map[string]func(k *Keyring, p Provider) error{
		"same provider":  func(k *Keyring, _ Provider) error { return rewrap(k, nil) },
		"other provider": func(k *Keyring, p Provider) error { return rewrap(k, p) },
		"new data key": func(k *Keyring, _ Provider) error {
			_, err := k.Add(context.Background(), nil, 0)
			return err
		},
		"new data key, other provider": func(k *Keyring, p Provider) error {
			_, err := k.Add(context.Background(), p, 0)
			return err
		},
	} {
		for _, format := range []int{unchecked, version} {
			for _, known := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, version %d, keys in memory %v", name, format, known), func(t *testing.T) {
					for wrong := 1; oneWrongAnswer(t, format, known, wrong, change); wrong++ {
						if wrong == 50 {
							t.Fatal("the provider is asked all the time")
						}
					}
				})
			}
		}
	}
}

// oneWrongAnswer reports whether the change has asked for so many keys.
func oneWrongAnswer(t *testing.T, format int, known bool, wrong int, change func(*Keyring, Provider) error) bool {
	mem := newMem(t)
	k, err := Create(optionsOf(mem, master(1)))
	must(t, err)
	lives := []*life{encrypt(t, k.Ring())}
	id, err := k.Add(t.Context(), nil, 2)
	must(t, errors.Join(err, k.Ring().SetCurrent(id), k.Clean()))
	lives = append(lives, encrypt(t, k.Ring()))
	if format == unchecked {
		overwrite(t, mem, k.Content())
	}

	p := &errsOnce{Provider: master(1)}
	k, err = Open(optionsOf(mem, p))
	must(t, err)
	if known {
		for _, l := range lives {
			must(t, l.decrypt(k.Ring()))
		}
	}
	p.calls, p.wrong = 0, wrong
	other := &errsOnce{Provider: master(2), wrong: wrong}
	if err := change(k, other); err != nil && !errors.Is(err, errs.ErrKey) {
		t.Errorf("wrong answer %d: %v", wrong, err)
	}
	asked := p.calls >= wrong
	p.wrong, other.wrong = 0, 0

	// Both master keys may be needed after an error; nothing else.
	for _, l := range lives {
		if err1, err2 := opened(t, mem, 1, l), opened(t, mem, 2, l); err1 != nil && err2 != nil {
			t.Errorf("wrong answer %d: lost: %v; %v", wrong, err1, err2)
		}
		if err := l.decrypt(k.Ring()); format == version && err != nil {
			t.Errorf("wrong answer %d: the keyring that is open: %v", wrong, err)
		}
	}
	return asked
}

func opened(t *testing.T, mem *vfs.Mem, by byte, l *life) error {
	k, err := Open(optionsOf(mem, master(by)))
	must(t, err)
	return l.decrypt(k.Ring())
}

// overwrite makes the keyring's file one of version 1.
func overwrite(t *testing.T, mem *vfs.Mem, c *Content) {
	path := filepath.Join("db", filename.Of(filename.Keyring, c.Number))
	must(t, mem.Remove(path))
	f, err := mem.Create(path)
	must(t, err)
	_, err = f.WriteAt(c.encodeUnchecked(), 0)
	must(t, errors.Join(err, f.Close()))
}

// TestWrongAnswerIsNotKept: a key that was unwrapped wrongly is asked for again, by whoever needs
// it next.
func TestWrongAnswerIsNotKept(t *testing.T) {
	mem := newMem(t)
	k, err := Create(optionsOf(mem, master(1)))
	must(t, err)
	l := encrypt(t, k.Ring())
	k, err = Open(optionsOf(mem, &errsOnce{Provider: master(1), wrong: 1}))
	must(t, err)
	if err := l.decrypt(k.Ring()); !errors.Is(err, errs.ErrKey) || errors.Is(err, crypt.ErrTag) {
		t.Errorf("a wrong key: %v", err)
	}
	must(t, l.decrypt(k.Ring()))
}
