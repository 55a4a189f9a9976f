package objects

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/brockdb/brock"
)

// idsAtOnce bounds the memory for ids to 16 MB.
const idsAtOnce = 1 << 20

// orphanSearch is what findOrphans tells.
type orphanSearch struct {
	orphan  func(id objectID) // has parts, and neither a head nor a mark
	twice   func()            // several heads have one id
	unknown func()            // a key is none of a part
}

// findOrphans compares the ids of heads and of parts. There are so many heads. It looks at a share
// of all ids at a time: as ids are random, shares are of about one size.
func (s *space) findOrphans(txn *brock.Txn, heads int, tell orphanSearch) error {
	shareBits := bits.Len(uint(heads / idsAtOnce))
	for share := range uint64(1) << shareBits {
		known := make([]objectID, 0, min(heads, idsAtOnce))
		err := s.eachHead(txn, nil, func(_ []byte, h *head, err error) bool {
			if err == nil && h.id.share(shareBits) == share {
				known = append(known, h.id)
			}
			return true
		})
		if err != nil {
			return err
		}
		slices.SortFunc(known, compareIDs)
		for i := range known {
			if i > 0 && known[i] == known[i-1] {
				tell.twice()
			}
		}
		if err := s.findUnknown(txn, share, shareBits, known, &tell); err != nil {
			return err
		}
	}
	return nil
}

// findUnknown looks at the parts of a share of all ids, of which these are known.
func (s *space) findUnknown(txn *brock.Txn, share uint64, shareBits int, known []objectID, tell *orphanSearch) error {
	var first objectID
	binary.BigEndian.PutUint64(first[:], share<<(64-shareBits))
	it := txn.In(s.parts).NewIterator(brock.IteratorOptions{Lower: first.partKey(0), Upper: []byte{partPrefix + 1}, KeysOnly: true, Prefetch: -1})
	defer it.Close()
	for it.Rewind(); it.Valid(); {
		id, _, ok := parsePartKey(it.Item().Key())
		if !ok {
			tell.unknown()
			it.Next()
			continue
		}
		if id.share(shareBits) != share {
			break
		}
		if _, have := slices.BinarySearchFunc(known, id, compareIDs); !have {
			staged, err := txn.In(s.parts).Has(id.stagedKey())
			if err != nil {
				return err
			}
			if !staged {
				tell.orphan(id)
			}
		}
		// Not to the next key: an object may have very many parts.
		it.Seek(id.pastParts())
	}
	return it.Err()
}

// share is the first bits of the id.
func (id *objectID) share(bits int) uint64 { return binary.BigEndian.Uint64(id[:]) >> (64 - bits) }

func compareIDs(a, b objectID) int { return bytes.Compare(a[:], b[:]) }
