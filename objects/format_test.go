package objects

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/corpus"
)

func someHead() *head {
	return &head{
		kind: blobHead, id: objectID([]byte("0123456789abcdef")), size: 1<<40 + 5, partSize: 1 << 20, millis: 1e12,
		digest: sumOf(nil), refs: 3, typ: "text/plain", meta: []byte("meta"),
	}
}

// TestGoldenBytes holds the bytes of the formats: they are for ever.
func TestGoldenBytes(t *testing.T) {
	id := someHead().id
	for what, c := range map[string]struct {
		got  []byte
		want string
	}{
		"head": {someHead().encodeHead(), "01 02 30313233343536373839616263646566 0500000000010000 00001000 0010a5d4e8000000" +
			"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0300000000000000 0a00 746578742f706c61696e 6d657461"},
		"part":    {id.partKey(258), "70 30313233343536373839616263646566 0000000000000102"},
		"mark":    {id.stagedKey(), "73 30313233343536373839616263646566"},
		"staging": {encodeStaged(1e12), "01 0010a5d4e8000000"},
	} {
		assert.Equal(t, what, hex.EncodeToString(c.got), strings.ReplaceAll(c.want, " ", ""))
	}
}

// TestHeadsAreDecoded: a head is what was encoded, and shorter ones and ones with other bytes in
// the place of fields are errors.
func TestHeadsAreDecoded(t *testing.T) {
	h := someHead()
	b := h.encodeHead()
	got, err := decodeHead(b, blobHead)
	assert.OK(t, err)
	if !reflect.DeepEqual(got, h) {
		t.Errorf("decoded %+v, want %+v", got, h)
	}
	for n := range headSize + len(h.typ) {
		assert.Error(t, "cut off", assert.ErrorOf(decodeHead(b[:n], blobHead)), brock.ErrCorrupt)
	}
	assert.Error(t, "other kind", assert.ErrorOf(decodeHead(b, objectHead)), brock.ErrCorrupt)
	for what, change := range map[string]func(h *head){
		"negative length": func(h *head) { h.size = math.MinInt64 },
		"no part size":    func(h *head) { h.partSize = 0 },
		"large part size": func(h *head) { h.partSize = maxPart + 1 },
		"no references":   func(h *head) { h.refs = 0 },
		"long type":       func(h *head) { h.typ = strings.Repeat("t", MaxType+1) },
		"long meta":       func(h *head) { h.meta = make([]byte, MaxMeta+1) },
	} {
		bad := someHead()
		change(bad)
		assert.Error(t, what, assert.ErrorOf(decodeHead(bad.encodeHead(), blobHead)), brock.ErrCorrupt)
	}
	huge := &head{size: math.MaxInt64, partSize: minPart}
	assert.Equal(t, "parts", huge.parts(), 1<<53)
	assert.Equal(t, "last part", huge.partLen(huge.parts()-1), minPart-1)
}

// TestDigestsAreText: a digest comes back from its text, and other texts are errors.
func TestDigestsAreText(t *testing.T) {
	d := sumOf([]byte("a"))
	assert.Equal(t, "digest", assert.Must(ParseDigest(d.String())), d)
	assert.Equal(t, "text", string(assert.Must(d.MarshalText())), d.String())
	for _, text := range []string{"", "ca", d.String()[1:], d.String() + "0", "g" + d.String()[1:]} {
		got, err := ParseDigest(text)
		assert.Error(t, text, err, brock.ErrInvalid)
		assert.Equal(t, text, got, Digest{})
	}
}

// FuzzHead decodes any bytes: no panic, and what is decoded encodes to the same bytes.
func FuzzHead(f *testing.F) {
	corpus.Add(f, someHead().encodeHead(), true)
	corpus.Add(f, (&head{kind: objectHead, partSize: DefaultPartSize}).encodeHead(), false)
	corpus.Add(f, encodeStaged(1), false)
	f.Fuzz(func(t *testing.T, b []byte, blob bool) {
		kind := objectHead
		if blob {
			kind = blobHead
		}
		h, err := decodeHead(b, kind)
		if err != nil {
			if !errors.Is(err, brock.ErrCorrupt) && !errors.Is(err, brock.ErrFormat) {
				t.Error(err)
			}
			return
		}
		if again := h.encodeHead(); !bytes.Equal(again, b) {
			t.Errorf("%x becomes %x", b, again)
		}
		if n := h.parts(); h.size > 0 && (h.partLen(n-1) < 1 || h.partLen(n-1) > h.partSize || n > 1 && h.partLen(0) != h.partSize) {
			t.Errorf("length %d in parts of %d: %d parts, the last one has %d", h.size, h.partSize, n, h.partLen(n-1))
		}
		_, _, _ = decodeStaged(b, b)
		_, _, _ = parsePartKey(b)
	})
}
