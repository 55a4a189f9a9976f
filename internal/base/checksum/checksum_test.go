package checksum

import "testing"

func TestSumDependsOnBytesIdentityAndOffset(t *testing.T) {
	uuid := [16]byte{1, 2, 3}
	base := New(uuid, 1, 7).Sum(4096, []byte("value"))
	other := uuid
	other[15] = 1
	for name, got := range map[string]uint32{
		"bytes":  New(uuid, 1, 7).Sum(4096, []byte("valuf")),
		"store":  New(other, 1, 7).Sum(4096, []byte("value")),
		"kind":   New(uuid, 2, 7).Sum(4096, []byte("value")),
		"number": New(uuid, 1, 8).Sum(4096, []byte("value")),
		"offset": New(uuid, 1, 7).Sum(4104, []byte("value")),
	} {
		if got == base {
			t.Errorf("another %s gives the same checksum %08x", name, got)
		}
	}
	if again := New(uuid, 1, 7).Sum(4096, []byte("value")); again != base {
		t.Errorf("the same place gives %08x, then %08x", base, again)
	}
}

func TestPlainIsCRC32C(t *testing.T) {
	// RFC 3720, appendix B.4: 32 bytes of zeros.
	if got := Plain(make([]byte, 32)); got != 0x8a9136aa {
		t.Errorf("CRC-32C of 32 zeros = %08x, want 8a9136aa", got)
	}
	if got := Extend(Plain([]byte("ab")), []byte("cd")); got != Plain([]byte("abcd")) {
		t.Error("Extend does not continue Plain")
	}
}
