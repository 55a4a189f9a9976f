package journal

import (
	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/disk/filename"
)

func segmentID(n entry.FileNum) checksum.Identity {
	return checksum.New(uuid, byte(filename.Journal), uint64(n))
}
