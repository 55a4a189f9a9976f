package journal

import (
	"github.com/brockdb/brock/internal/checksum"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/filename"
)

func segmentID(n entry.FileNum) checksum.Identity {
	return checksum.New(uuid, byte(filename.Journal), uint64(n))
}
