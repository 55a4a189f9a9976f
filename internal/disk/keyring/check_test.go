package keyring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
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
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, keys in memory %v", name, known), func(t *testing.T) {
				for wrong := 1; oneWrongAnswer(t, known, wrong, change); wrong++ {
					if wrong == 50 {
						t.Fatal("the provider is asked all the time")
					}
				}
			})
		}
	}
}

// oneWrongAnswer reports whether the change has asked for so many keys.
func oneWrongAnswer(t *testing.T, known bool, wrong int, change func(*Keyring, Provider) error) bool {
	mem := newMem(t)
	k, err := Create(optionsOf(mem, master(1)))
	must(t, err)
	units := []*sealed{encrypt(t, k.Ring())}
	id, err := k.Add(t.Context(), nil, 2)
	must(t, errors.Join(err, k.Ring().SetCurrent(id), k.Clean()))
	units = append(units, encrypt(t, k.Ring()))

	p := &errsOnce{Provider: master(1)}
	k, err = Open(optionsOf(mem, p))
	must(t, err)
	if known {
		for _, l := range units {
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
	for _, l := range units {
		if err1, err2 := opened(t, mem, 1, l), opened(t, mem, 2, l); err1 != nil && err2 != nil {
			t.Errorf("wrong answer %d: lost: %v; %v", wrong, err1, err2)
		}
		if err := l.decrypt(k.Ring()); err != nil {
			t.Errorf("wrong answer %d: the keyring that is open: %v", wrong, err)
		}
	}
	return asked
}

func opened(t *testing.T, mem *vfs.Mem, by byte, l *sealed) error {
	k, err := Open(optionsOf(mem, master(by)))
	must(t, err)
	return l.decrypt(k.Ring())
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
