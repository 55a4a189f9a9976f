package report

// File is a file that holds entries of the store, or leads to them.
type File struct {
	Name  string // in Options.Dir, or ValueDir if its Kind isn't "run"
	Kind  string // "run", "value", "journal" or "forwarding", as in docs/glossary.md
	Use   string // "entries" need it, also those of history; it is "unflushed"; or only the change "feed" needs it
	Bytes int64  // its length; of the journal's last file what is written so far
	Dead  int64  // of Bytes, about how many nothing needs: keys and values; what upper runs have replaced isn't known yet

	Run        uint64 // number of the run that it is a part of; 0 = Kind isn't "run", or only the feed needs it
	Tier       string // of the run: "upper" as flushes make it, "tier" and a number, "base" below all others
	Entries    int64  // of the run, in all of its files; of a segment, records whose values may be needed
	MinVersion uint64 // of the run: its least commit
	MaxVersion uint64 // of the run: its greatest commit
}
