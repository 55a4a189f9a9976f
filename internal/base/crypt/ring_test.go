package crypt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestEveryBit flips each bit of what a reader is given beside the ciphertext: all of
// them are under the tag, and what can't be read is zeros.
func TestEveryBit(t *testing.T) {
	for _, c := range []Cipher{AES256GCM, ChaCha20Poly1305} {
		r := testRing(t, c)
		f := File{UUID: [16]byte{7}, Kind: 'R', Number: 3}
		e, keyID, err := r.New(f)
		if err != nil {
			t.Fatal(err)
		}
		const offset = 1 << 33
		if _, err := e.Begin(offset, 64); err != nil {
			t.Fatal(err)
		}
		text := []byte("forty-one bytes, as lengths may be uneven")
		n := len(text)
		crypt := make([]byte, n, n+TagSize)
		data := []byte("clear")
		tag, err := e.Encrypt(crypt, text, Page, offset, data)
		if err != nil {
			t.Fatal(err)
		}

		// What is changed, and how many bits it has.
		type place struct {
			uuid, keyID, tag, data []byte
			number, offset         uint64
			attempt                uint32
			kind, unit             byte
		}
		read := func(change func(p *place)) ([]byte, error) {
			l, g, tg := keyID, f, tag
			p := place{g.UUID[:], l.Salt[:], tg[:], bytes.Clone(data), f.Number, offset, 0, f.Kind, byte(Page)}
			change(&p)
			g.Number, g.Kind = p.number, p.kind
			d, err := r.Open(g, l)
			if err != nil {
				t.Fatal(err)
			}
			got := bytes.Repeat([]byte{0xaa}, n)
			err = d.Decrypt(got, crypt, &tg, Unit(p.unit), int64(p.offset), p.attempt, p.data)
			return got, err
		}
		if got, err := read(func(*place) {}); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%v: read %q: %v", c, got, err)
		}
		flip := func(b []byte, i int) { b[i/8] ^= 1 << (i % 8) }
		for _, v := range []struct {
			name string
			bits int
			flip func(p *place, i int)
		}{
			{"uuid", 128, func(p *place, i int) { flip(p.uuid, i) }},
			{"file key id", 128, func(p *place, i int) { flip(p.keyID, i) }},
			{"tag", 128, func(p *place, i int) { flip(p.tag, i) }},
			{"data", 40, func(p *place, i int) { flip(p.data, i) }},
			{"number", 64, func(p *place, i int) { p.number ^= 1 << i }},
			{"offset", 64, func(p *place, i int) { p.offset ^= 1 << i }},
			{"attempt", 32, func(p *place, i int) { p.attempt ^= 1 << i }},
			{"kind", 8, func(p *place, i int) { p.kind ^= 1 << i }},
			{"unit", 8, func(p *place, i int) { p.unit ^= 1 << i }},
		} {
			for i := range v.bits {
				got, err := read(func(p *place) { v.flip(p, i) })
				if !errors.Is(err, ErrTag) {
					t.Errorf("%v, bit %d of %s: %v", c, i, v.name, err)
				}
				if !bytes.Equal(got, make([]byte, n)) {
					t.Errorf("%v, bit %d of %s: %x was given out", c, i, v.name, got)
				}
			}
		}
		for _, cut := range [][]byte{nil, data[:4], append(bytes.Clone(data), 0)} {
			if _, err := read(func(p *place) { p.data = cut }); !errors.Is(err, ErrTag) {
				t.Errorf("%v, %q for the associated data: %v", c, cut, err)
			}
		}
	}
}

// TestBeginAgainstModel begins and encrypts at random places, as a writer does that
// retries, takes back and begins again. Each pair of offset and attempt comes once, and
// the pairs that Begin promises are those of the model.
func TestBeginAgainstModel(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 57))
		r := testRing(t, AES256GCM)
		e, keyID, err := r.New(File{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.Open(File{}, keyID)
		if err != nil {
			t.Fatal(err)
		}
		type nonce struct {
			offset  int64
			attempt uint32
		}
		seen := map[nonce]bool{}
		high, last := int64(0), uint32(0)
		for range 40 {
			// Sizes are small, so that places meet often: also at their ends.
			offset, size := rnd.Int64N(50), rnd.Int64N(12)
			attempt, err := e.Begin(offset, size)
			if err != nil {
				t.Fatal(err)
			}
			if offset < high {
				last++
			}
			high = offset + size
			if attempt != last {
				t.Fatalf("seed %d: Begin(%d, %d) has attempt %d, not %d", seed, offset, size, attempt, last)
			}
			// Units don't share a byte; some have none.
			for at := offset - 1; at <= offset+size+1; {
				n := rnd.Int64N(4)
				b := make([]byte, n, n+TagSize)
				tag, err := e.Encrypt(b, b, Record, at, nil)
				if inside := at >= offset && at < offset+size && at+n <= offset+size; inside != (err == nil) {
					t.Fatalf("seed %d: %d bytes at %d within %d to %d: %v", seed, n, at, offset, offset+size, err)
				}
				if err == nil {
					if seen[nonce{at, attempt}] {
						t.Fatalf("seed %d: offset %d, attempt %d came twice", seed, at, attempt)
					}
					seen[nonce{at, attempt}] = true
					if err := d.Decrypt(b, b, &tag, Record, at, attempt, nil); err != nil || !bytes.Equal(b, make([]byte, n)) {
						t.Fatalf("seed %d: %d bytes at %d: %x, %v", seed, n, at, b, err)
					}
				}
				at += max(n, 1)
			}
		}
	}
}

// TestRingUnwraps: each data key is unwrapped once, when it is needed first; an error is
// returned as it is, and asked for again; a key that isn't the one asked for is refused.
func TestRingUnwraps(t *testing.T) {
	away := errors.New("the service doesn't answer")
	var asked atomic.Int64
	var answer func(ID) (DataKey, error)
	r := NewRing(nil, func(id ID) (DataKey, error) {
		asked.Add(1)
		return answer(id)
	})
	keyID := FileKeyID{Key: ID{1}, Cipher: AES256GCM}
	if _, _, err := r.New(File{}); err == nil {
		t.Error("a ring without a current key has given one")
	}
	if r.Current() != (ID{}) {
		t.Error("a new ring has a current key")
	}

	for name, wrong := range map[string]DataKey{
		"another id":     {ID: ID{2}, Cipher: AES256GCM},
		"no cipher":      {ID: ID{1}},
		"unknown cipher": {ID: ID{1}, Cipher: 3},
	} {
		answer = func(ID) (DataKey, error) { return wrong, nil }
		if _, err := r.Open(File{}, keyID); err == nil {
			t.Errorf("a data key with %s was taken", name)
		}
	}
	answer = func(ID) (DataKey, error) { return DataKey{}, away }
	for range 2 {
		if _, err := r.Open(File{}, keyID); !errors.Is(err, away) {
			t.Errorf("the error is %v", err)
		}
		if err := r.SetCurrent(ID{1}); !errors.Is(err, away) {
			t.Errorf("the error is %v", err)
		}
	}

	answer = func(id ID) (DataKey, error) { return DataKey{ID: id, Cipher: Cipher(id[0])}, nil }
	asked.Store(0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				if _, err := r.Open(File{Number: uint64(i)}, keyID); err != nil {
					t.Error(err)
				}
				if err := r.SetCurrent(ID{1}); err != nil {
					t.Error(err)
				}
				if _, l, err := r.New(File{}); err != nil || l.Key != r.Current() {
					t.Error(l, err)
				}
			}
		})
	}
	wg.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("unwrapped %d times", n)
	}

	answer = func(ID) (DataKey, error) { return DataKey{}, away }
	if err := r.SetCurrent(ID{2}); err == nil || r.Current() != (ID{1}) {
		t.Errorf("%v; current is %x", err, r.Current())
	}
	keyID.Cipher = ChaCha20Poly1305
	if _, err := r.Open(File{}, keyID); !errors.Is(err, ErrTag) {
		t.Errorf("a file key id with another cipher than its data key: %v", err)
	}
	if err := r.DecryptOnce(nil, nil, new(Tag), File{}, keyID, Edit, 0, nil); !errors.Is(err, ErrTag) {
		t.Errorf("a unit with another cipher than its data key: %v", err)
	}
}

// TestRingWaitsOnlyForWhatIsAsked: while unwrap is asked for one data key, calls that need others
// go on, and those that need the same one share the answer. A panic of unwrap leaves no call
// waiting.
func TestRingWaitsOnlyForWhatIsAsked(t *testing.T) {
	asked, answer := make(chan bool, 8), make(chan func() error)
	r := NewRing(nil, func(id ID) (DataKey, error) {
		k := DataKey{ID: id, Cipher: AES256GCM}
		if id == (ID{1}) {
			return k, nil
		}
		asked <- true
		return k, (<-answer)()
	})
	if err := r.SetCurrent(ID{1}); err != nil {
		t.Fatal(err)
	}
	slow := FileKeyID{Key: ID{2}, Cipher: AES256GCM}
	results := make(chan error, 8)
	open := func() {
		defer func() {
			if p := recover(); p != nil {
				results <- fmt.Errorf("panic: %v", p)
			}
		}()
		_, err := r.Open(File{}, slow)
		results <- err
	}
	for range 4 {
		go open()
	}
	<-asked // and is not answered
	if _, l, err := r.New(File{}); err != nil || r.Current() != (ID{1}) {
		t.Error(err)
	} else if _, err := r.Open(File{}, l); err != nil {
		t.Error(err)
	}
	if err := r.SetCurrent(ID{1}); err != nil {
		t.Error(err)
	}
	away := errors.New("the service doesn't answer")
	answer <- func() error { return away }
	if err := <-results; !errors.Is(err, away) {
		t.Errorf("the error is %v", err)
	}
	<-asked
	answer <- func() error { panic("a provider's") }
	if err := <-results; err == nil || !strings.Contains(err.Error(), "a provider's") {
		t.Errorf("the error is %v", err)
	}
	<-asked
	answer <- func() error { return nil }
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if len(asked) > 0 {
		t.Error("a call that waited has asked again for what was answered")
	}
}

// TestFileKeyIDs: files and units under one data key have file key ids of their own, and none is
// given where the random source fails.
func TestFileKeyIDs(t *testing.T) {
	r := testRing(t, AES256GCM)
	seen := map[[16]byte]bool{}
	b := make([]byte, 8, 8+TagSize)
	for range 100 {
		_, l, err := r.New(File{Number: 1})
		if err != nil || seen[l.Salt] {
			t.Fatal(l, err)
		}
		seen[l.Salt] = true
		_, l, err = r.EncryptOnce(b, b, File{Number: 1}, Edit, 0, nil)
		if err != nil || seen[l.Salt] {
			t.Fatal(l, err)
		}
		seen[l.Salt] = true
	}

	short := NewRing(strings.NewReader("fifteen bytes.."), r.unwrap)
	if err := short.SetCurrent(r.Current()); err != nil {
		t.Fatal(err)
	}
	if e, _, err := short.New(File{}); e != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file key id of 15 bytes: %v", err)
	}
	text := []byte("plaintext, and room for a tag...")[:16]
	if _, _, err := short.EncryptOnce(text, text, File{}, Edit, 0, nil); !errors.Is(err, io.EOF) || string(text) != "plaintext, and r" {
		t.Errorf("%q: %v", text, err)
	}
	if _, err := NewDataKey(strings.NewReader("less than 48 bytes"), AES256GCM); err == nil {
		t.Error("a data key of 18 bytes")
	}
}

// TestKeysAreNotPrinted prints a data key in many ways.
func TestKeysAreNotPrinted(t *testing.T) {
	k := DataKey{ID: ID{1}, Cipher: AES256GCM}
	copy(k.Key[:], "rare bytes, which are the secret")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%U"} {
		for _, of := range []any{k, &k, []DataKey{k}, map[string]DataKey{"": k}, struct{ K *DataKey }{&k}, struct{ K DataKey }{k}} {
			got := fmt.Sprintf(verb, of)
			for _, secret := range []string{"rare", "72617265", "72, 0x61", "114 97 114", "U+0072"} {
				if strings.Contains(strings.ToLower(got), strings.ToLower(secret)) {
					t.Errorf("%s of a %T prints %s", verb, of, got)
				}
			}
		}
	}
}

// TestReadersShareADecrypter decrypts on many goroutines at once, each in memory of its
// own.
func TestReadersShareADecrypter(t *testing.T) {
	r := testRing(t, AES256GCM)
	e, keyID, err := r.New(File{})
	if err != nil {
		t.Fatal(err)
	}
	const units, size = 16, 512
	crypts, tags := make([][]byte, units), make([]Tag, units)
	if _, err := e.Begin(0, units*size); err != nil {
		t.Fatal(err)
	}
	for i := range units {
		b := bytes.Repeat([]byte{byte(i)}, size+TagSize)[:size]
		if tags[i], err = e.Encrypt(b, b, Page, int64(i*size), nil); err != nil {
			t.Fatal(err)
		}
		crypts[i] = b
	}
	d, err := r.Open(File{}, keyID)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range units * 10 {
				i %= units
				b := append(make([]byte, 0, size+TagSize), crypts[i]...)
				if err := d.Decrypt(b, b, &tags[i], Page, int64(i*size), 0, nil); err != nil ||
					!bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, size)) {
					t.Errorf("unit %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}
