package report

// BackupProgress is how far a Backup is.
type BackupProgress struct {
	Bytes int64 // of files in the stream, before compression
	Total int64 // Bytes at the end
}

// Salvage says what a salvage has written.
type Salvage struct {
	Keys      uint64   // number of keys in the new store
	Found     uint64   // of these, keys that no run had any more: a journal or value segment had them
	Version   uint64   // the newest version in the new store
	Losses    int      // number of calls of report
	Keyspaces []string // names of the keyspaces of the new store, but the default one
}
