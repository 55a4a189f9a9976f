// Package run is a sorted run (an SST in other stores): entries in key order in one or more files,
// read by key through a hash index in each chunk, or in order. docs/format.md, "Run", has the
// format.
package run

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/chunk"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// OpenConfig says where a run's files are and how they are read.
type OpenConfig struct {
	FS    vfs.FS        // of the files
	Dir   string        // directory of the files
	UUID  [16]byte      // of the store
	Ring  *crypt.Ring   // opens the keys of encrypted files; nil: there are none
	Seed  uint64        // of the store's key hash; only Verify needs it
	NoMap bool          // read by blocks into Cache instead of mapping the files
	Cache *pageio.Cache // of files that are encrypted or not mapped; nil: one for this run

	Files *pageio.Files // opens the files; nil: without a limit of open ones
}

// Reader reads a run. Any number of goroutines may use it. Keys and values that its
// methods return are valid until Close. Where the files are mapped, a fault in the
// mapping (the device fails) panics: call its methods below pageio.Guard.
type Reader struct {
	keys    keys     // bounds of the chunks, for search
	chunks  []record // the chunks of entries, in order
	filters []filter // filter of each chunk, or one of all chunks; nil: there are none

	oldest, newest entry.Version // least and greatest version of an entry

	// The chunks with range deletes are read by a Reader of their own, as if they were another run
	// in the same files: see RangeDeletes.
	spans    *Reader   // reads the chunks of range deletes; nil: there are none
	ranges   ranges    // numbers of range deletes
	searches sync.Pool // idle *search, which find range deletes
	parent   *Reader   // in the Reader of range deletes, that of entries; else nil

	meta  layout.RunMeta // what the manifest says of the run
	files []*file        // in order
	first *entry.Entry   // a bound, not greater than the first entry; nil: there is none
	last  *entry.Entry   // a bound, not less than the last entry; nil: there is none
	cache *pageio.Cache  // nil: all files are read in place
	seed  uint64         // of the store's key hash
}

// file is one open file of a run.
type file struct {
	*pageio.File
	origin
	dir    *directory // its directory, without the chunks, which are in Reader.chunks
	chunks int        // number of its chunks
}

// inPlace reports whether chunks and filters are read in the mapping. The pages of an encrypted
// file must be decrypted into other memory.
func (f *file) inPlace() bool { return f.Mapped() != nil && f.Key == nil }

// Open opens the files of a run and reads their directories and the filter.
func Open(cfg OpenConfig, m layout.RunMeta) (*Reader, error) {
	r := &Reader{meta: m, cache: cfg.Cache, seed: cfg.Seed}
	if err := r.openFiles(&cfg); err != nil {
		// Close frees what was opened before the error.
		return nil, errors.Join(fmt.Errorf("open run: %w", err), r.Close())
	}
	return r, nil
}

// openFiles is Open for a Reader that has nothing but its description.
func (r *Reader) openFiles(cfg *OpenConfig) error {
	if cfg.Files == nil {
		cfg.Files = pageio.NewFiles(cfg.FS, 0)
	}
	if len(r.meta.Files) == 0 {
		return fmt.Errorf("%w: no files", errs.ErrInvalid)
	}
	for i := range r.meta.Files {
		if err := r.addFile(cfg, &r.meta.Files[i], r.meta.Stamp); err != nil {
			return err
		}
	}
	for _, f := range r.files {
		if f.inPlace() {
			f.Read, f.Paged.Verified = f.ReadOrPrime, f.VerifiedPages(pageio.PagesOf(f.Size()))
			continue
		}
		if r.cache == nil {
			r.cache = pageio.NewCache(0)
		}
		f.Read, f.Cache, f.Owner = f.ReadCopy, r.cache, r
	}
	// In this order: range deletes are no entries, so they must not be counted among these.
	if err := r.splitRangeDeletes(); err != nil {
		return err
	}
	if err := r.checkMeta(); err != nil {
		return err
	}
	if err := r.readFilters(); err != nil {
		return err
	}
	if len(r.chunks) > 0 {
		// No entry of this key comes before the greatest version, as versions come newest first.
		r.first = &entry.Entry{Key: r.chunks[0].key, Version: math.MaxUint64}
		r.last = &entry.Entry{Key: r.meta.Last}
	}
	for _, part := range r.parts() {
		part.openChunks()
	}
	return nil
}

// parts returns the Reader of entries and, if there are any, that of range deletes.
func (r *Reader) parts() []*Reader {
	if r.spans == nil {
		return []*Reader{r}
	}
	return []*Reader{r, r.spans}
}

// newOrigin returns the origin of file num with this file key id.
func (cfg *OpenConfig) newOrigin(num entry.FileNum, keyID crypt.FileKeyID) (origin, error) {
	owner := chunk.Owner{UUID: cfg.UUID, Num: num}
	o := origin{Paged: pageio.Paged{Name: filename.Of(filename.Run, num), ID: owner.ID()}, owner: owner, keyID: keyID}
	switch {
	case keyID.IsZero():
		return o, nil
	case cfg.Ring == nil:
		return o, fmt.Errorf("%w: %s is encrypted, and there are no keys", errs.ErrInvalid, o.Name)
	}
	key, err := cfg.Ring.Open(cryptFile(&o.owner), keyID)
	if errors.Is(err, crypt.ErrTag) {
		err = &errs.Corruption{File: o.Name, Offset: -1, Reason: "file key id of the file", Err: err}
	}
	o.Key = key
	return o, err
}

// addFile opens file m of the run, checks its directory and adds its chunks.
func (r *Reader) addFile(cfg *OpenConfig, m *layout.RunFile, stamp entry.Version) error {
	o, err := cfg.newOrigin(m.Num, m.KeyID)
	if err != nil {
		return err
	}
	// The footer is found by the size that the manifest knows: what is behind it is not of the
	// file.
	if m.Size < uint64(o.footerSize()) || m.Size > math.MaxInt64 {
		return errs.NewCorruption(o.Name, -1, "the manifest has it as %d bytes long", m.Size)
	}
	pf, err := cfg.Files.Open(filepath.Join(cfg.Dir, o.Name), pageio.Options{Size: int64(m.Size), NoMap: cfg.NoMap})
	if err != nil {
		return err
	}
	f := &file{File: pf, origin: o}
	// In the list before anything can fail: Close then closes it.
	r.files = append(r.files, f)
	dir, ft, err := f.readDirectory(f.File, int64(m.Size))
	if err != nil {
		return err
	}
	// The footer's checksum covers the directory's checksum. So a sound file of another run
	// that was copied over this one is refused, too.
	if m.Checksum != 0 && m.Checksum != ft.Checksum || ft.Owner != f.owner {
		return errs.NewCorruption(o.Name, int64(m.Size)-footerSize, "footer is not the one that the manifest knows")
	}
	f.dir, dir.about = dir, nil
	// Each file is sorted by itself; the run is only if the files follow each other, too.
	if n := len(r.chunks); n > 0 && len(dir.chunks) > 0 && !dir.chunks[0].mayFollow(&r.chunks[n-1].bound) {
		return errs.NewCorruption(o.Name, int64(ft.DirOffset), "directory: keys before those of the file before")
	}
	if err := f.adoptChunks(stamp); err != nil {
		return err
	}
	r.chunks = append(r.chunks, f.dir.chunks...)
	f.chunks, f.dir.chunks = len(f.dir.chunks), nil
	return nil
}

// adoptChunks makes the chunks in the directory those of f, and gives their entries the version v;
// 0: they have their own.
func (f *file) adoptChunks(v entry.Version) error {
	for i := range f.dir.chunks {
		r := &f.dir.chunks[i]
		// A stamp replaces versions, which must be 0 in the file: else two versions of a key could
		// become one.
		if v != 0 && r.MaxVersion != 0 {
			return errs.NewCorruption(f.Name(), r.Offset, "chunk has versions up to %d, but the manifest says that all are %d", r.MaxVersion, v)
		}
		r.file, r.Layout.Stamp, r.Stats = f, v, r.Stats.Stamped(v)
	}
	return nil
}

// readDirectory reads and checks footer and directory of a file of size bytes.
func (o *origin) readDirectory(f *pageio.File, size int64) (*directory, *footer, error) {
	foot := make([]byte, o.footerSize())
	at := size - int64(len(foot))
	if err := f.ReadFull(foot, at); err != nil {
		return nil, nil, err
	}
	ft, err := decodeFooter(foot, &o.owner, at, o.Name)
	if err == nil {
		err = o.verifyFooter(ft, foot, at)
	}
	if err != nil {
		return nil, nil, err
	}
	// The footer is verified: else its numbers could ask for any amount of memory.
	b := make([]byte, ft.DirSize, ft.DirSize+chunk.Room)
	if err := f.ReadFull(b, int64(ft.DirOffset)); err != nil {
		return nil, nil, err
	}
	if err := o.verifyDirectory(b, ft); err != nil {
		return nil, nil, err
	}
	d, err := decodeDirectory(b, ft.DirOffset, o.Key != nil)
	return d, ft, o.damagedPart(int64(ft.DirOffset), "directory", err)
}

// verifyDirectory compares the directory b with its checksum, or decrypts it in place.
func (o *origin) verifyDirectory(b []byte, ft *footer) error {
	if o.Key != nil {
		return o.damagedPart(int64(ft.DirOffset), "directory", o.Key.Decrypt(b, b, &ft.DirTag, crypt.Directory, int64(ft.DirOffset), 0, nil))
	}
	if got := o.ID.Sum(int64(ft.DirOffset), b); got != ft.DirSum {
		return errs.NewCorruption(o.Name, int64(ft.DirOffset), "directory: checksum %#x, want %#x", got, ft.DirSum)
	}
	return nil
}

// splitRangeDeletes moves the chunks with range deletes, the last ones of the run, from r to
// r.spans.
func (r *Reader) splitRangeDeletes() error {
	last := r.files[len(r.files)-1]
	n := len(r.chunks)
	for n > 0 && isRangeDeletes(r.chunks[n-1].key) {
		n--
	}
	// Range deletes that are not counted would not be asked for, and what they deleted would be
	// back.
	if (n == len(r.chunks)) != (last.dir.ranges == ranges{}) {
		return errs.NewCorruption(last.Name(), -1, "directory: %d range deletes in %d chunks", last.dir.ranges.flat+last.dir.ranges.history, len(r.chunks)-n)
	}
	if n == len(r.chunks) {
		return nil
	}
	r.spans = &Reader{cache: r.cache, seed: r.seed, chunks: r.chunks[n:], ranges: last.dir.ranges, parent: r}
	r.chunks = r.chunks[:n:n]
	r.spans.countEntries()
	return nil
}

// checkMeta compares what the directories say with what the manifest says. So a file that was
// swapped for an older one is found out before anybody reads it.
func (r *Reader) checkMeta() error {
	// Refs and bytes are not compared: Verify reads all entries for them.
	var m layout.RunMeta
	s := r.countEntries()
	setStats(&m, &s)
	if n := len(r.chunks); n > 0 {
		m.First = r.chunks[0].key
	}
	// The last key is stored only in the last chunk. Verify reads that.
	m.Last = r.meta.Last
	w := &r.meta
	if t := r.spans; t != nil {
		// Their bounds are not compared: Verify reads all of them.
		if len(r.chunks) > 0 && (bytes.Compare(w.First, m.First) > 0 || bytes.Compare(w.Last, m.Last) < 0) {
			return errs.NewCorruption(r.files[0].Name(), -1, "keys are beyond the bounds that the manifest knows")
		}
		m.AddRangeDeletes(&layout.RunMeta{First: w.First, Last: w.Last, RangeDeletes: t.ranges.flat + t.ranges.history, MinVersion: t.oldest, MaxVersion: t.newest})
	}
	if m.Entries != w.Entries || m.Deletes != w.Deletes || m.RangeDeletes != w.RangeDeletes ||
		m.MinVersion != w.MinVersion || m.MaxVersion != w.MaxVersion ||
		!bytes.Equal(w.First, m.First) || !bytes.Equal(w.Last, m.Last) {
		return errs.NewCorruption(r.files[0].Name(), -1, "contents are not those that the manifest knows")
	}
	return nil
}

// countEntries sets oldest and newest, and returns what the directories say of all chunks.
func (r *Reader) countEntries() (s chunk.Stats) {
	for i := range r.chunks {
		s.Merge(&r.chunks[i].Stats)
	}
	r.oldest, r.newest = s.MinVersion, s.MaxVersion
	return s
}

// openChunks has the chunks read from their files.
func (r *Reader) openChunks() {
	r.keys = newKeys(r.chunks)
	for i := range r.chunks {
		c := &r.chunks[i]
		if c.File = &c.file.Paged; c.file.inPlace() {
			size := c.Layout.Size()
			c.Data = c.file.Mapped()[c.Offset:][:size:size]
		}
	}
}

// Meta returns the description of the run that Open was given.
func (r *Reader) Meta() *layout.RunMeta { return &r.meta }

// MaxVersion is the greatest version of an entry or range delete.
func (r *Reader) MaxVersion() entry.Version { return r.meta.MaxVersion }

// Get finds the newest version of key that is not newer than at, and sets dst to it, with key as
// dst.Key. It returns false if there is none. Get does not use the filter: call MayContain
// before it.
func (r *Reader) Get(key []byte, hash uint64, at entry.Version, dst *entry.Entry) (bool, error) {
	i, err := r.searchNewest(key)
	if err != nil || i >= len(r.chunks) {
		return false, err
	}
	c := &r.chunks[i].Chunk
	// A key with another prefix is in no chunk: no page is touched for it.
	if !r.chunks[i].hasPrefix(key, c.Prefix) {
		return false, nil
	}
	// The bound had only a part of a long prefix; the rest is in the chunk.
	if c.Prefix > boundSize {
		if order, err := r.comparePrefix(i, c, key); order != 0 || err != nil {
			return false, err
		}
	}
	res, err := c.Get(key[c.Prefix:], hash, at, dst)
	// Older versions of a chunk's last key may be in the next chunks.
	for res == chunk.Newer {
		if i++; i == len(r.chunks) || !r.chunks[i].again {
			return false, nil
		}
		c = &r.chunks[i].Chunk
		res, err = c.GetFirst(at, dst)
	}
	if res != chunk.Found || err != nil {
		return false, err
	}
	dst.Key = key
	return true, nil
}

// searchNewest returns the only chunk that can have the newest version of key. This is the first
// chunk whose last key is not less than key, or the one before it if key is less than all its keys.
func (r *Reader) searchNewest(key []byte) (int, error) {
	lo, hi := r.keys.searchChunks(key)
	// The bounds don't tell: compare with the first keys, which lie in the chunks.
	for lo < hi {
		mid := (lo + hi + 1) / 2
		order, err := r.chunks[mid].CompareFirst(key)
		if err != nil {
			return 0, err
		}
		if order < 0 || order == 0 && r.chunks[mid].again {
			hi = mid - 1
		} else {
			lo = mid
		}
	}
	return lo, nil
}

// chunkPrefix returns what the keys of chunk i, loaded as c, share. It is valid as long as c is.
func (r *Reader) chunkPrefix(i int, c *chunk.Chunk) ([]byte, error) {
	// Without a page of the chunk: most prefixes are short.
	if c.Prefix <= boundSize {
		return r.chunks[i].key[:c.Prefix], nil
	}
	return c.SharedPrefix()
}

// comparePrefix compares key with the prefix of the keys of chunk i, loaded as c: less than 0 means
// before all of them, greater than 0 behind all of them, 0 that key begins as they do.
func (r *Reader) comparePrefix(i int, c *chunk.Chunk, key []byte) (int, error) {
	p, err := r.chunkPrefix(i, c)
	if err != nil || bytes.HasPrefix(key, p) {
		return 0, err
	}
	return bytes.Compare(key, p), nil
}

// warmBytes bounds what Warm reads: 64 pages, some 0.1 ms.
const warmBytes = 256 << 10

// Warm reads and verifies all of a small run, so that its first reader need not. Call it right
// after the run was written, while its pages are in memory. For a run of more than 256 KiB it
// does nothing: readers verify what they need.
func (r *Reader) Warm() error {
	if r.meta.FileBytes() > warmBytes {
		return nil
	}
	for i := range r.chunks {
		c := &r.chunks[i]
		if err := c.Verify(0, c.TrailerStart()); err != nil {
			return err
		}
	}
	return nil
}

// fileOf returns the file of chunk i.
func (r *Reader) fileOf(i int) *file { return r.chunks[i].file }

// Held is pageio.File.Held of the run's files.
func (r *Reader) Held() (held []vfs.File) {
	for _, f := range r.files {
		held = append(held, f.Held())
	}
	return held
}

// Close closes the files. Nothing that the Reader handed out may be in use.
func (r *Reader) Close() error {
	// The cache must not lead to a closed file.
	if r.cache != nil {
		r.cache.Forget(r)
	}
	for i := range r.filters {
		r.filters[i].pages.Free()
	}
	var err error
	for _, f := range r.files {
		// The files of the process keep a list of all sets of verified pages: it must not grow.
		f.Paged.Verified.Free()
		err = errors.Join(err, f.Close())
	}
	r.files = nil
	return err
}
