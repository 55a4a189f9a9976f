package y

import "os"

// Flags say how OpenExistingFile opens.
type Flags int

const (
	// Sync makes each write durable before it returns.
	Sync Flags = 1 << iota
	// ReadOnly opens for reading only.
	ReadOnly
)

// OpenExistingFile opens a file that is there.
func OpenExistingFile(name string, flags Flags) (*os.File, error) {
	mode := os.O_RDWR
	if flags&ReadOnly != 0 {
		mode = os.O_RDONLY
	}
	return os.OpenFile(name, mode|syncMode(flags&Sync != 0), 0)
}

// CreateSyncedFile creates a file that must not be there.
func CreateSyncedFile(name string, sync bool) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|syncMode(sync), 0o600)
}

// OpenSyncedFile opens a file, and creates it if it is not there.
func OpenSyncedFile(name string, sync bool) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|syncMode(sync), 0o600)
}

// OpenTruncFile opens a file as an empty one, and creates it if it is not there.
func OpenTruncFile(name string, sync bool) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC|syncMode(sync), 0o600)
}

func syncMode(sync bool) int {
	if sync {
		return os.O_SYNC
	}
	return 0
}
