package run

import (
	"bytes"
	"testing"

	"github.com/brockdb/brock/internal/crypt"
)

var testKey = crypt.DataKey{ID: crypt.ID{9, 8, 7}, Cipher: crypt.AES256GCM, Key: [crypt.KeySize]byte{1, 2, 3}}

var (
	testRing = newRing(nil)
	ring     *crypt.Ring // that runs are written with; nil: they are plain
)

// newRing returns a Ring with the test's key, which draws lives from random.
func newRing(random []byte) *crypt.Ring {
	unwrap := func(crypt.ID) (crypt.DataKey, error) { return testKey, nil }
	r := crypt.NewRing(nil, unwrap)
	if random != nil {
		r = crypt.NewRing(bytes.NewReader(random), unwrap)
	}
	if err := r.SetCurrent(testKey.ID); err != nil {
		panic(err)
	}
	return r
}

// forms calls fn as tests of plain and of encrypted runs.
func forms(t *testing.T, fn func(t *testing.T)) {
	t.Run("plain", fn)
	ring = testRing
	defer func() { ring = nil }()
	t.Run("encrypted", fn)
}

func form() string {
	if ring == nil {
		return ""
	}
	return "_encrypted"
}

// useGoldenRing has the next run drawn the same life each time.
func useGoldenRing(t *testing.T, which int) {
	ring = newRing(bytes.Repeat([]byte{byte(0x10 + which)}, 16))
	t.Cleanup(func() { ring = testRing })
}
