// Package keyring keeps the data keys of an encrypted store: each wrapped by a provider of
// master keys, all in the file KEYS-nnnnnn. In the words of others it is envelope encryption:
// master keys are key encryption keys (KEK), often in a KMS, and data keys (DEK) never reach the
// disk unwrapped. Decision 57 has the design.
//
// A keyring is never changed in place. A new file with the next number is written and synced, and
// the one before is removed after that. So a crash at any moment leaves a whole one.
package keyring

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/vfs"
)

// ErrAbsent is the errs.ErrKey for a data key that the keyring doesn't have.
var ErrAbsent = fmt.Errorf("%w: no such data key", errs.ErrKey)

// Options says whose keyring it is, and where.
type Options struct {
	FS      vfs.FS
	Dir     string // of the store
	UUID    [16]byte
	Keys    Provider        // wraps and unwraps data keys
	Context context.Context // bounds calls of the provider until Bound is called; nil: nothing does
	Created int64           // Unix milliseconds; of data keys that Create makes
	Random  io.Reader       // source of data keys and salts; nil: crypto/rand.Reader. Another one is for tests
}

// Keyring is the keyring of one store. Its methods may run together, but for those that write the
// file: call these one at a time.
type Keyring struct {
	o    Options
	ring *crypt.Ring

	durable bool // this process has written the content, and synced it

	mu sync.Mutex // guards:
	state
}

// state is what changes of a Keyring.
type state struct {
	keys    Provider        // wraps and unwraps data keys
	ctx     context.Context // bounds calls of the provider for the Ring
	content *Content        // never changed, only replaced
}

// newKeyring returns the Keyring with the content c.
func newKeyring(o Options, c *Content) (*Keyring, error) {
	if err := checkAllowed(); err != nil {
		return nil, err
	}
	k := &Keyring{o: o, state: state{keys: o.Keys, ctx: cmp.Or(o.Context, context.Background()), content: c}}
	k.o.Keys, k.o.Context = nil, nil // these change; here they would stay
	k.ring = crypt.NewRing(o.Random, k.unwrapKey)
	return k, nil
}

// checkAllowed returns an error where the process may not use the ciphers.
func checkAllowed() error {
	block, err := aes.NewCipher(make([]byte, crypt.KeySize))
	if err == nil {
		_, err = cipher.NewGCM(block) // which GODEBUG=fips140=only refuses, as nonces are not random
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errs.ErrUnsupported, err)
	}
	return nil
}

// Create writes the first keyring of a new store, with one data key, which is current in the
// Ring. It is durable on return. On an error nothing is left, if it can be removed.
func Create(o Options) (*Keyring, error) {
	k, err := newKeyring(o, &Content{UUID: o.UUID})
	if err != nil {
		return nil, err
	}
	// The key is durable before it encrypts anything.
	id, err := k.Add(k.ctx, nil, o.Created)
	if err != nil {
		return nil, err
	}
	return k, k.ring.SetCurrent(id)
}

// Open reads the keyring. It asks the provider for nothing, and no data key is current yet. It
// returns errs.ErrKey if there is no keyring of this store.
func Open(o Options) (*Keyring, error) {
	c, err := Load(o.FS, o.Dir, o.UUID)
	if err != nil {
		return nil, err
	}
	return newKeyring(o, c)
}

// Ring returns the data keys. Each is unwrapped when it is first asked for. Errors wrap
// errs.ErrKey.
func (k *Keyring) Ring() *crypt.Ring { return k.ring }

// Ring returns the data keys of c. p unwraps each when it is first asked for. No file is read.
func (c *Content) Ring(p Provider) (*crypt.Ring, error) {
	if err := checkAllowed(); err != nil {
		return nil, err
	}
	return crypt.NewRing(nil, func(id crypt.ID) (crypt.DataKey, error) { return c.unwrapKey(context.Background(), p, id) }), nil
}

// Content is what the file says now; it is never changed.
func (k *Keyring) Content() *Content { return k.currentState().content }

// Has reports whether the data key with the id is there.
func (k *Keyring) Has(id crypt.ID) bool { return k.Content().Has(id) }

// Full reports whether there are as many data keys as there can be, so that no other one can be
// added.
func (k *Keyring) Full() bool { return len(k.Content().Keys) >= maxKeys }

// currentState returns the state.
func (k *Keyring) currentState() state {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// Provider returns the provider that wraps the data keys now: that of the last Draft written, if it
// brought one.
func (k *Keyring) Provider() Provider { return k.currentState().keys }

// Bound has ctx bound the calls of the provider for the Ring from now on.
func (k *Keyring) Bound(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ctx = ctx
}

// During is Bound until end is called. Meanwhile nobody may call During.
func (k *Keyring) During(ctx context.Context) (end func()) {
	k.Bound(ctx)
	return func() { k.Bound(context.Background()) }
}

// Forget lets go of the provider, for the Close of the store: what is not unwrapped yet stays so.
// It may be called while others ask the provider.
func (k *Keyring) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = nobody{}
}

// nobody is the provider of a closed store.
type nobody struct{}

func (nobody) WrapKey(context.Context, []byte, []byte) ([]byte, error) {
	return nil, errs.ErrClosed
}

func (nobody) UnwrapKey(context.Context, []byte, []byte) ([]byte, error) {
	return nil, errs.ErrClosed
}

// unwrapKey is the Ring's way to a data key. The process that writes the store may have added
// one since the file was read, or wrapped it under another master key.
func (k *Keyring) unwrapKey(id crypt.ID) (crypt.DataKey, error) {
	s := k.currentState()
	key, wrong := s.content.unwrapKey(s.ctx, s.keys, id)
	if wrong == nil {
		return key, nil
	}
	// Perhaps the writer, another process, has made a newer file.
	newest, err := Load(k.o.FS, k.o.Dir, k.o.UUID)
	if err != nil {
		return crypt.DataKey{}, errors.Join(wrong, err)
	}
	if newest.Number <= s.content.Number {
		return crypt.DataKey{}, wrong
	}
	k.mu.Lock()
	k.content = newest
	k.mu.Unlock()
	return newest.unwrapKey(s.ctx, s.keys, id)
}

// unwrapKey has p unwrap the data key with the id, and checks what p returns.
func (c *Content) unwrapKey(ctx context.Context, p Provider, id crypt.ID) (crypt.DataKey, error) {
	w := c.findKey(id)
	if w == nil {
		return crypt.DataKey{}, fmt.Errorf("%w: %x is not in %s", ErrAbsent, id, filename.Of(filename.Keyring, c.Number))
	}
	key, err := Within(ctx, p).UnwrapKey(ctx, bytes.Clone(w.Wrapped), c.binding(w))
	if err != nil {
		return crypt.DataKey{}, refusedError(fmt.Sprintf("unwrap data key %x", id), err)
	}
	if len(key) != crypt.KeySize {
		return crypt.DataKey{}, fmt.Errorf("%w: data key %x was unwrapped to %d bytes, not %d", errs.ErrKey, id, len(key), crypt.KeySize)
	}
	d := crypt.DataKey{ID: id, Cipher: w.Cipher, Key: [crypt.KeySize]byte(key)}
	// A provider may err. What it answers is relied on for all that is under the key, and is
	// wrapped again, so a wrong answer must end here, where it can be asked again.
	check, err := d.Check(c.UUID)
	if err != nil {
		return crypt.DataKey{}, err
	}
	if check != w.Check {
		return crypt.DataKey{}, fmt.Errorf("%w: the provider unwrapped another key than data key %x", errs.ErrKey, id)
	}
	return d, nil
}

// wrapKey has the key wrapped by p, and unwrapped again: with a key that can't be unwrapped, all
// that is encrypted under it would be lost.
func (c *Content) wrapKey(ctx context.Context, p Provider, d *crypt.DataKey, created int64) (Key, error) {
	check, err := d.Check(c.UUID)
	if err != nil {
		return Key{}, err
	}
	w := Key{keyHead: keyHead{ID: d.ID, Cipher: d.Cipher, Created: created, Check: check}}
	wrapped, err := Within(ctx, p).WrapKey(ctx, bytes.Clone(d.Key[:]), c.binding(&w))
	if err != nil {
		return Key{}, refusedError("wrap a data key", err)
	}
	if len(wrapped) == 0 || len(wrapped) > maxWrapped {
		return Key{}, fmt.Errorf("%w: a data key was wrapped to %d bytes; 1 to %d can be kept", errs.ErrKey, len(wrapped), maxWrapped)
	}
	w.Wrapped = bytes.Clone(wrapped)
	// A content of this key alone: the key is in no other one yet.
	one := &Content{UUID: c.UUID, Number: c.Number, Keys: []Key{w}}
	_, err = one.unwrapKey(ctx, p, d.ID)
	return w, err
}

// Add writes the keyring with a new data key: it is durable on return, and not current yet.
// created is in Unix milliseconds. After an error all is as it was.
func (k *Keyring) Add(ctx context.Context, p Provider, created int64) (crypt.ID, error) {
	d, err := k.DraftKey(ctx, p, created)
	if err != nil {
		return crypt.ID{}, err
	}
	return k.Write(d)
}

// Draft is a new content of the keyring that is not written yet. It needs no more calls of a
// provider.
type Draft struct {
	content *Content
	keys    Provider
	added   *crypt.DataKey // nil: no data key is new
}

// DraftKey draws a data key and has it wrapped. If p is not nil, it is the provider from the Write
// of the Draft on: it wraps the other keys too. created is in Unix milliseconds.
func (k *Keyring) DraftKey(ctx context.Context, p Provider, created int64) (*Draft, error) {
	d, err := k.rewrapKeys(ctx, p)
	if err != nil {
		return nil, err
	}
	if len(d.content.Keys) == maxKeys {
		return nil, fmt.Errorf("%w: the keyring has %d data keys, and all are needed: rewrite what is under old ones", errs.ErrInvalid, maxKeys)
	}
	key, err := crypt.NewDataKey(k.o.Random, crypt.Preferred())
	if err != nil {
		return nil, err
	}
	w, err := d.content.wrapKey(ctx, d.keys, &key, created)
	if err != nil {
		return nil, err
	}
	d.content.Keys, d.added = append(d.content.Keys, w), &key
	return d, nil
}

// DraftRewrap has all data keys unwrapped and wrapped again, by p or, if it is nil, by the provider
// that is there, under the master key that is current now.
func (k *Keyring) DraftRewrap(ctx context.Context, p Provider) (*Draft, error) {
	if p == nil {
		p = k.Provider()
	}
	return k.rewrapKeys(ctx, p)
}

// Write writes a Draft of the keyring as it is now, and returns the id of the data key that it
// adds. All is durable on return. The file before stays until Clean: until then, either of both
// master keys may be needed. After an error all is as it was.
func (k *Keyring) Write(d *Draft) (id crypt.ID, err error) {
	if err := k.writeFile(d.content, d.keys); err != nil || d.added == nil {
		return id, err
	}
	// Only now the Ring may encrypt under it: before, a crash would lose the key and all that is
	// under it.
	k.ring.Put(*d.added)
	return d.added.ID, nil
}

// rewrapKeys drafts a copy of the content. If p is not nil, it has wrapped each key anew.
func (k *Keyring) rewrapKeys(ctx context.Context, p Provider) (*Draft, error) {
	s := k.currentState()
	c := &Content{UUID: s.content.UUID, Number: s.content.Number, Keys: slices.Clone(s.content.Keys)}
	if p == nil {
		return &Draft{content: c, keys: s.keys}, nil
	}
	for i := range c.Keys {
		d, err := s.content.unwrapKey(ctx, s.keys, c.Keys[i].ID)
		if err != nil {
			return nil, err
		}
		// All or none: one key that p can't wrap would be lost with the old master key.
		if c.Keys[i], err = c.wrapKey(ctx, p, &d, c.Keys[i].Created); err != nil {
			return nil, err
		}
	}
	return &Draft{content: c, keys: p}, nil
}

// Keep removes the data keys that are not needed: the file is written without them, and the one
// before is removed. The current key of the Ring stays. It writes nothing if all are needed.
func (k *Keyring) Keep(needed func(crypt.ID) bool) error {
	s, current := k.currentState(), k.ring.Current()
	c := &Content{UUID: s.content.UUID}
	c.Keys = slices.DeleteFunc(slices.Clone(s.content.Keys), func(w Key) bool {
		// New files are under the current key, though nothing may need it yet.
		return w.ID != current && !needed(w.ID)
	})
	if len(c.Keys) == len(s.content.Keys) {
		return nil
	}
	if err := k.writeFile(c, s.keys); err != nil {
		return err
	}
	return k.Clean()
}

// Clean removes the files before this keyring. Open for writing calls it: a crash may have left
// such files, and only one whole copy of this keyring, or one that is not durable, as a sync has
// failed. So what an earlier process wrote is first written anew, under the next number: in its
// place a crash could tear the only whole copy.
func (k *Keyring) Clean() error {
	s := k.currentState()
	older, err := s.content.listOlder(k.o.FS, k.o.Dir)
	if err == nil && len(older) > 0 && !k.durable {
		older = append(older, s.content.Number)
		err = k.writeFile(&Content{UUID: s.content.UUID, Keys: s.content.Keys}, s.keys)
	}
	for _, n := range older {
		// An old keyring has keys wrapped by the old master key, which the user may want to be
		// gone.
		if err == nil {
			err = k.o.FS.Remove(filepath.Join(k.o.Dir, filename.Of(filename.Keyring, n)))
		}
	}
	if err == nil && len(older) > 0 {
		err = k.o.FS.SyncDir(k.o.Dir)
	}
	if err != nil {
		return fmt.Errorf("remove old keyrings: %w", err)
	}
	return nil
}

// writeFile makes c the keyring, under the next free number, and p its provider. The file before
// stays until Clean.
func (k *Keyring) writeFile(c *Content, p Provider) error {
	nums, err := listNumbers(k.o.FS, k.o.Dir)
	if err != nil {
		return fmt.Errorf("write the keyring: %w", err)
	}
	// A file of a crash may have the next number. One far from it is a stranger's.
	now := k.Content().Number
	for c.Number = now + 1; slices.Contains(nums, c.Number); {
		c.Number++
	}
	if c.Number <= now {
		return fmt.Errorf("%w: %s has the greatest number that a keyring can have", errs.ErrCorrupt,
			filepath.Join(k.o.Dir, filename.Of(filename.Keyring, now)))
	}
	if err := c.Write(k.o.FS, k.o.Dir); err != nil {
		return fmt.Errorf("write the keyring: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.content, k.keys, k.durable = c, p, true
	return nil
}
