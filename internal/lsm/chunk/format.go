// Package chunk is the unit of a sorted run: up to 1 MB of entries in key order, a hash index that
// leads to the newest entry of a key, and a trailer that says how to read and check them.
// docs/format.md, "Run", has the tables. (An SST of other stores has blocks of a few KB instead;
// here pages of 4 KB are only the unit of checksums.)
package chunk

import (
	"encoding/binary"
	"errors"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
)

const (
	PageSize   = pageio.PageSize // parts of a chunk begin at multiples
	MaxEntries = maxOffset       // bytes of entries, unless one entry alone is longer
	HeaderSize = 32              // before the first entry

	magic         = 0x434b5242 // "BRKC"
	formatVersion = 1          // version of the format

	pageShift = 12 // PageSize is 1 << pageShift

	// A fence stands every 512 bytes: a seek walks over half of that. The format lets
	// a trailer say another distance, from 256 bytes to 1 MB.
	fenceShift     = 9
	encryptedShift = 12 // in an encrypted file a fence a page: it is decrypted as a whole
	minFenceShift  = 8  // a fence every 256 bytes, at least
	maxFenceShift  = 20 // a fence every 1 MB, at most

	headSize = 8  // header word of an entry
	extSize  = 8  // meta and expiry
	handSize = 8  // handle of the short form
	wideSize = 40 // header of the wide form, inline value
	wideHand = 56 // header of the wide form with a handle

	kindMask  = 0x0f                         // bits of the kind
	flagSep   = 0x10                         // the value is in a segment
	flagExt   = 0x20                         // meta and expiry follow the header word
	flagWide  = 0x40                         // the wide form: all fields in full length
	flagOlder = 0x80                         // the next entry is an older version of the same key
	flagSlow  = flagSep | flagExt | flagWide // not the plainest form, a short inline entry

	// In a handle word or, of the wide form, in the length of the value: a word
	// of 32 bits, the value's length before it was compressed, follows the suffix.
	flagRaw = 1 << 63
	rawSize = 4

	maxSuffix = 1<<8 - 1  // longest suffix of the short form
	maxInline = 1<<16 - 1 // longest value of the short form
	maxExpiry = 1<<56 - 1 // latest expiry of the short form, in Unix milliseconds
)

// Sections of trailers and directories. A reader refuses a section that it does
// not know if it is required, and skips it otherwise.
const (
	secEnd       = 0
	secPrefix    = 1
	secFence     = 2
	secChecksums = 3
	secIndex     = 4
	secStat      = 5
	secTags      = 8 // in the place of secChecksums, if the file is encrypted
)

var (
	errEntry   = errors.New("entry does not fit its chunk")
	errTrailer = errors.New("bad trailer")
)

// Owner is the run file that a chunk is part of. Every chunk begins with it, so that the first
// bytes of a file tell which store it belongs to.
type Owner struct {
	UUID [16]byte      // of the store
	Num  entry.FileNum // number of the file
}

// ID is what the checksums of the file are bound to.
func (o *Owner) ID() checksum.Identity {
	return checksum.New(o.UUID, byte(filename.Run), uint64(o.Num))
}

// putBytes writes the header of a chunk.
func (o *Owner) putBytes(b []byte) {
	binary.LittleEndian.PutUint32(b, magic)
	binary.LittleEndian.PutUint32(b[4:], formatVersion)
	binary.LittleEndian.PutUint64(b[8:], uint64(o.Num))
	copy(b[16:], o.UUID[:])
}

// Layout says where the parts of a chunk are and how its short entries are to be completed. The
// directory of a run has it, and the trailer confirms it.
type Layout struct {
	End         int           // end of the entries, from the start of the chunk
	Buckets     int           // buckets of the hash index; 0: there is none
	TrailerSize int           // length of the trailer, a multiple of PageSize
	Prefix      int           // bytes that all keys share and entries leave out
	VersionBase entry.Version // least version of the short entries
	SegmentBase entry.FileNum // least segment of their handles
	Stamp       entry.Version // added to all versions, which the file has as 0; not in the file
}

// IndexStart is where the hash index begins.
func (l *Layout) IndexStart() int { return pageCeil(l.End) }

// TrailerStart is where the trailer begins.
func (l *Layout) TrailerStart() int {
	return l.IndexStart() + pageCeil(l.Buckets*bucketSize)
}

// Size is the length of the chunk, a multiple of PageSize.
func (l *Layout) Size() int { return l.TrailerStart() + l.TrailerSize }

// fences is how many fences the trailer has at this distance.
func (l *Layout) fences(shift int) int { return (l.End + 1<<shift - 1) >> shift }

// pages is how many pages have a checksum in the trailer.
func (l *Layout) pages() int { return l.TrailerStart() >> pageShift }

// Stats counts what a chunk or a run holds. A file has the fields in this order, as u64.
type Stats struct {
	Entries        uint64
	Keys           uint64 // distinct keys whose newest version is here
	Deletes        uint64 // entries that are deletes
	KeyBytes       uint64 // bytes of all keys
	ValueBytes     uint64 // bytes of inline values
	SeparatedBytes uint64 // bytes of separated values
	MinVersion     entry.Version
	MaxVersion     entry.Version
	MinExpiry      uint64 // earliest expiry, in Unix milliseconds; 0: nothing expires
}

// StatsSize is the length of encoded Stats.
const StatsSize = 9 * 8

// Append encodes s: its fields, in their order.
func (s *Stats) Append(b []byte) []byte {
	b, _ = binary.Append(b, binary.LittleEndian, s) // it has only numbers: it can't fail
	return b
}

// DecodeStats decodes the Stats at the start of b, which is at least StatsSize long.
func DecodeStats(b []byte) (s Stats) {
	_, _ = binary.Decode(b, binary.LittleEndian, &s) // as in Append
	return s
}

// Stamped returns s with v added to its versions, see Layout.Stamp.
func (s Stats) Stamped(v entry.Version) Stats {
	s.MinVersion += v
	s.MaxVersion += v
	return s
}

// AddEntry counts e; older says that it is not the first version of its key.
func (s *Stats) AddEntry(e *entry.Entry, older bool) {
	// Without this, the 0 of empty Stats would be the least version.
	if s.Entries == 0 {
		s.MinVersion, s.MaxVersion = e.Version, e.Version
	}
	s.Entries++
	// A key counts where its newest version is. So the keys of chunks add up to those of the run.
	if !older {
		s.Keys++
	}
	if e.Kind == entry.Delete {
		s.Deletes++
	}
	s.KeyBytes += uint64(len(e.Key))
	if e.Separated {
		s.SeparatedBytes += e.Handle.Length
	} else {
		s.ValueBytes += uint64(len(e.Value))
	}
	s.MinVersion = min(s.MinVersion, e.Version)
	s.MaxVersion = max(s.MaxVersion, e.Version)
	if e.Expires != 0 && (s.MinExpiry == 0 || e.Expires < s.MinExpiry) {
		s.MinExpiry = e.Expires
	}
}

// Merge adds t to s.
func (s *Stats) Merge(t *Stats) {
	// Empty Stats have no least version: their 0 must not win.
	if t.Entries == 0 {
		return
	}
	if s.Entries == 0 {
		*s = *t
		return
	}
	s.MinVersion = min(s.MinVersion, t.MinVersion)
	s.MaxVersion = max(s.MaxVersion, t.MaxVersion)
	// 0 is no expiry, not the earliest.
	if s.MinExpiry == 0 || t.MinExpiry != 0 && t.MinExpiry < s.MinExpiry {
		s.MinExpiry = t.MinExpiry
	}
	s.Entries += t.Entries
	s.Keys += t.Keys
	s.Deletes += t.Deletes
	s.KeyBytes += t.KeyBytes
	s.ValueBytes += t.ValueBytes
	s.SeparatedBytes += t.SeparatedBytes
}

// pageCeil is n rounded up to whole pages.
func pageCeil(n int) int { return (n + PageSize - 1) &^ (PageSize - 1) }

// align8 is n rounded up to a multiple of 8.
func align8(n int) int { return (n + 7) &^ 7 }
