package scan

import (
	"bytes"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/view"
)

// PastDeletes seeks from a stored key to the first visible one, and returns that, or the end of the
// keyspace. It is called for what the seek notes on its way (streak).
func PastDeletes(p *view.Pin, now uint64, from []byte) (next []byte, err error) {
	id, _ := entry.KeyspaceOf(from)
	end := entry.AfterKeyspace(id)
	s := Begin(&Config{Pin: p, Clock: fixed(now), Lo: from, Hi: end, At: p.Version(), KeysOnly: true})
	defer s.FreeMemory()
	defer s.Close()
	if s.Seek(from, false) {
		return bytes.Clone(s.Entry().Key), nil
	}
	return end, s.Err()
}

// fixed is a Clock that stands.
type fixed uint64

func (f fixed) Now() uint64 { return uint64(f) }
