package policy

import "testing"

// However many readers keep memtables of their time, all of these take half of the memory
// and for each reader a sixteenth of a memtable.
func TestReadersKeepSmallMemtables(t *testing.T) {
	for _, memory := range []int64{4 << 20, 16 << 20, 256 << 20, 64 << 30} {
		full := memory / 8
		pinned := int64(0)
		for readers := range int64(1000) {
			next := MemtableBytes(full, pinned, memory)
			if readers < 2 && next != full {
				t.Errorf("memory of %d: with %d readers a memtable has %d bytes", memory, readers, next)
			}
			pinned += next
			if most := memory/2 + readers*max(full/16, pinnedLeastBytes); pinned > most {
				t.Fatalf("memory of %d: %d readers keep %d bytes, want %d at most", memory, readers, pinned, most)
			}
		}
	}
	if n := MemtableBytes(1<<20, 1<<40, 0); n != 1<<20 {
		t.Errorf("without a limit a memtable has %d bytes", n)
	}
}

func TestMovedRecordsFollowMemory(t *testing.T) {
	for memory, want := range map[int64]uint64{0: mostMovedRecords, 1 << 20: 1 << 20 / bytesPerMove, 1 << 40: mostMovedRecords} {
		if n := (&Options{Memory: memory}).movedRecords(); n != want {
			t.Errorf("memory of %d: %d records move, want %d", memory, n, want)
		}
	}
}
