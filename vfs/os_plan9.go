package vfs

const (
	openFlags = 0
	dirsSync  = false // there is no call for it
)

// isNoSpace never knows.
func isNoSpace(error) bool { return false } // errors are text of the file server
