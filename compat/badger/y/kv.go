package y

import (
	"fmt"
	"time"

	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/brockdb/brock/compat/badger/pb"
)

// NewKV returns an empty KV. The allocator is not used: a KV has pointers, which the garbage
// collector doesn't see in memory that is not its own.
func NewKV(*z.Allocator) *pb.KV { return &pb.KV{} }

// FixedDuration returns d in hours, minutes and seconds, such as 01h02m03s.
func FixedDuration(d time.Duration) string {
	text := fmt.Sprintf("%02ds", int(d.Seconds())%60)
	if d >= time.Minute {
		text = fmt.Sprintf("%02dm", int(d.Minutes())%60) + text
	}
	if d >= time.Hour {
		text = fmt.Sprintf("%02dh", int(d.Hours())) + text
	}
	return text
}

// IBytesToString returns a size with so many digits after the point, such as 11.7 MiB.
func IBytesToString(size uint64, precision int) string {
	if size < 10 {
		return fmt.Sprintf("%d B", size)
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	value, unit := float64(size), 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.*f %s", precision, value, units[unit])
}
