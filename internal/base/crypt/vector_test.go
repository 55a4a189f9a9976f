package crypt

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/brockdb/brock/internal/base/invariant"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStandards compares both ciphers with the vectors of their standards. The first byte
// of the associated data stands for the kind of unit, as in files.
func TestStandards(t *testing.T) {
	for _, v := range []struct {
		name                               string
		cipher                             Cipher
		key, nonce, data, text, crypt, tag string
	}{
		{
			// Test case 16 of "The Galois/Counter Mode of Operation" (McGrew, Viega).
			"AES-256-GCM", AES256GCM,
			"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
			"cafebabefacedbaddecaf888",
			"feedfacedeadbeeffeedfacedeadbeefabaddad2",
			"d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72" +
				"1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
			"522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa" +
				"8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
			"76fc6ece0f4e1768cddf8853bb2d551b",
		},
		{
			// RFC 8439, 2.8.2.
			"ChaCha20-Poly1305", ChaCha20Poly1305,
			"808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
			"070000004041424344454647",
			"50515253c0c1c2c3c4c5c6c7",
			hex.EncodeToString([]byte("Ladies and Gentlemen of the class of '99: " +
				"If I could offer you only one tip for the future, sunscreen would be it.")),
			"d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6" +
				"3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36" +
				"92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc" +
				"3ff4def08e4b7a9de576d26586cec64b6116",
			"1ae10b594f09e26a7e902ecbd0600691",
		},
	} {
		t.Run(v.name, func(t *testing.T) {
			s, err := newSealer(v.cipher, unhex(t, v.key))
			if err != nil {
				t.Fatal(err)
			}
			nonce, data := unhex(t, v.nonce), unhex(t, v.data)
			offset := int64(binary.LittleEndian.Uint64(nonce))
			attempt := binary.LittleEndian.Uint32(nonce[8:])
			text, crypt := unhex(t, v.text), unhex(t, v.crypt)
			tag := Tag(unhex(t, v.tag))

			b := append(bytes.Clone(crypt), make([]byte, TagSize)...)[:len(crypt)]
			if err := s.openUnit(b, b, &tag, Unit(data[0]), offset, attempt, data[1:]); err != nil || !bytes.Equal(b, text) {
				t.Errorf("decrypted %x: %v", b, err)
			}
			if invariant.Enabled {
				return // with -count=2 the ledger would find the nonce again, rightly
			}
			copy(b, text)
			if got := s.sealUnit(b, b, Unit(data[0]), offset, attempt, data[1:]); got != tag || !bytes.Equal(b, crypt) {
				t.Errorf("encrypted %x, tag %x", b, got)
			}
		})
	}
}

// derived is HKDF-SHA256 for 32 bytes (RFC 5869), written out.
func derived(secret, salt, info []byte) []byte {
	sum := func(key []byte, parts ...[]byte) []byte {
		h := hmac.New(sha256.New, key)
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	return sum(sum(salt, secret), info, []byte{1})
}

// another encrypts as decision 57 writes it down, without the code of this package.
func another(t *testing.T, c Cipher, key, nonce, text, data []byte) []byte {
	t.Helper()
	var a cipher.AEAD
	block, err := aes.NewCipher(key)
	if err == nil {
		a, err = cipher.NewGCM(block)
	}
	if c == ChaCha20Poly1305 {
		a, err = chacha20poly1305.New(key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a.Seal(nil, nonce, text, data)
}

// TestBytes reads what was encrypted by other code with the same words, and by an
// earlier build of this one: keys, nonces and associated data must stay what they are,
// or no store that exists can be read.
func TestBytes(t *testing.T) {
	golden := map[Cipher][2]string{
		AES256GCM: {
			"76b7b707812e44dbd5b14a84a1b85bffc60f050e85fe7341db455a422362d6d8eb45031739bd5e9b8c9220e203e1d87ab9ac690c",
			"d91660ce6d2a890790cacd30bc668b83aafae8d36609121b6e6d86dca3cdede287405765dc33519b473da2a2a5a5d4291c9a5277",
		},
		ChaCha20Poly1305: {
			"5f0c82b066b1bd69821beb79dda0e6c2a845b4ce2f7e37c34d1105aeb293cb4ca816beeb68af668fe0eb89e2549748acc743b0f2",
			"2c41bd8f4b4b53e506588534ba3bd2f3f08e5aaf9f4602401d4520c65a1efa10998be2ce2f363beff8b55c0690a095f008c06cd6",
		},
	}
	f := File{UUID: [16]byte{0: 0xa0, 15: 0xaf}, Kind: 'V', Number: 0x1122334455667788}
	keyID := FileKeyID{Salt: [16]byte{0: 0xb0, 15: 0xbf}}
	secret := [KeySize]byte{1, 2, 3}
	const offset, attempt = 0x0123456789abcdef, 0x1fedc
	text := []byte("a value of which no byte may be seen")
	for c, want := range golden {
		t.Run(c.String(), func(t *testing.T) {
			r := testRing(t, c)
			keyID.Key, keyID.Cipher = ID{byte(c)}, c

			info := append([]byte("brock file 1"), byte(c), f.Kind)
			info = binary.LittleEndian.AppendUint64(info, f.Number)
			info = append(info, f.UUID[:]...)
			nonce := binary.LittleEndian.AppendUint64(nil, offset)
			nonce = binary.LittleEndian.AppendUint32(nonce, attempt)
			b := another(t, c, derived(secret[:], keyID.Salt[:], info), nonce, text, []byte("rclear"))
			if got := hex.EncodeToString(b); got != want[0] {
				t.Errorf("a unit of a file is %s", got)
			}
			d, err := r.Open(f, keyID)
			if err != nil {
				t.Fatal(err)
			}
			n := len(text)
			tag := Tag(b[n:])
			if err := d.Decrypt(b[:n], b[:n], &tag, Record, offset, attempt, []byte("clear")); err != nil || !bytes.Equal(b[:n], text) {
				t.Errorf("read %q: %v", b[:n], err)
			}

			info = append([]byte("brock unit 1"), info[len("brock unit 1"):]...)
			info = binary.LittleEndian.AppendUint64(info, offset)
			b = another(t, c, derived(secret[:], keyID.Salt[:], info), make([]byte, 12), text, []byte("mclear"))
			if got := hex.EncodeToString(b); got != want[1] {
				t.Errorf("a unit with a key of its own is %s", got)
			}
			tag = Tag(b[n:])
			if err := r.DecryptOnce(b[:n], b[:n], &tag, f, keyID, Edit, offset, []byte("clear")); err != nil || !bytes.Equal(b[:n], text) {
				t.Errorf("read %q: %v", b[:n], err)
			}
		})
	}
}
