package engine

import "testing"

func TestMovedRecordsFollowMemory(t *testing.T) {
	if movedRecords(0) != maxMoved || movedRecords(1<<20) != 1<<20/bytesPerMove || movedRecords(1<<40) != maxMoved {
		t.Errorf("moved records: %d, %d, %d", movedRecords(0), movedRecords(1<<20), movedRecords(1<<40))
	}
}
