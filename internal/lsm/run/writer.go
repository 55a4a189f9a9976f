package run

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/lsm/chunk"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/vfs"
)

// DefaultFileBytes (256 MB) is the length at which a run's file ends and its next
// one begins.
const DefaultFileBytes = 256 << 20

// WriterConfig says where a run is written and for which store.
type WriterConfig struct {
	FS        vfs.FS
	Dir       string
	UUID      [16]byte
	Ring      *crypt.Ring          // encrypts the files; nil: they are plain
	Seed      uint64               // of the store's key hash
	NextNum   func() entry.FileNum // gives each file its number
	FileBytes int64                // most bytes of a file, without its last filter; 0: 256 MB
	NoFilter  bool                 // write no filter: gets find most keys in this run
	Expiries  *entry.Expiries      // gathers layout.RunMeta.Expiry; nil: not recorded

	// About returns an edit (package manifest) that describes the store's runs and keyspaces,
	// for a salvage without MANIFEST. It is called for each file, with the earlier files of
	// the run, and the bounds of the run so far. nil = no description.
	About func(before []layout.RunFile, first, last []byte) []byte

	FilterKeys int // about how many keys one filter has; 0: DefaultFilterKeys (256 Ki)
}

// Writer writes a run. It is used by one goroutine, and ended by Finish or Abort. After an error
// all calls return that error, and its files are removed.
type Writer struct {
	cfg        WriterConfig
	b          *chunk.Builder // builds the current chunk
	hashes     []uint64       // hashes of the keys in chunks that have no filter yet
	unfiltered uint32         // number of these chunks
	refs       refs           // references of the entries so far
	stats      chunk.Stats    // of the entries so far
	meta       layout.RunMeta // of the run so far
	err        error          // the first error, or errFinished

	file     vfs.File         // the file that is written; nil: none
	out      *pageio.Appender // appends to file
	owner    chunk.Owner      // store and number of file
	enc      *crypt.Encrypter // nil: the file is plain
	keyID    crypt.FileKeyID  // file key id
	offset   int64            // bytes written to file
	dir      directory        // of file so far
	dirBytes int64            // estimate of the directory's size
	created  []string         // paths of all files, to remove them after an error
	unsynced bool             // nothing is synced

	ranged       bool           // this chunk and all later ones have range deletes
	ranges       ranges         // numbers of range deletes added
	rangeDeletes layout.RunMeta // bounds, versions and number of the range deletes
	last         entry.Version  // greatest version of the last forest
	newest       bool           // AddNewest was called
	key          []byte         // scratch for a span's key
}

// NewWriter returns a Writer; it creates no file before there is something to write.
func NewWriter(cfg WriterConfig) *Writer {
	cfg.FileBytes = cmp.Or(cfg.FileBytes, DefaultFileBytes)
	cfg.FilterKeys = cmp.Or(cfg.FilterKeys, DefaultFilterKeys)
	return &Writer{cfg: cfg, b: chunk.NewBuilder(), refs: newRefs()}
}

// WithoutSync makes w sync nothing, as the run need not survive a crash. It returns w.
func (w *Writer) WithoutSync() *Writer {
	w.unsynced = true
	return w
}

// Add writes the next entry; entries come in the order of entry.Compare, no two
// equal. e and what it points to may be reused at once.
func (w *Writer) Add(e *entry.Entry) error {
	if w.err != nil {
		return w.err
	}
	if !writable(e) {
		return w.failWith(fmt.Errorf("write run: %w: kind %d, key of %d bytes, value of %d bytes, version %d",
			errs.ErrInvalid, e.Kind, len(e.Key), len(e.Value), e.Version))
	}
	// Readers take all chunks from the first one of range deletes on for such.
	if w.ranged || isRangeDeletes(e.Key) {
		return w.failWith(fmt.Errorf("write run: %w: entry behind range deletes", errs.ErrInvalid))
	}
	if err := w.addEntry(e); err != nil {
		return err
	}
	w.refs.addEntry(e)
	if w.cfg.Expiries != nil {
		w.cfg.Expiries.Add(e)
	}
	return nil
}

// addEntry adds an entry, which may stand for a span of a range delete.
func (w *Writer) addEntry(e *entry.Entry) error {
	h := checksum.HashKey(w.cfg.Seed, e.Key)
	done := w.b.Add(e, h)
	// A full chunk is written; the entry is the first of the next one.
	if done == chunk.Full {
		if err := w.flushChunk(); err != nil {
			return err
		}
		done = w.b.Add(e, h)
	}
	switch done {
	case chunk.Disorder, chunk.Full:
		return w.failWith(fmt.Errorf("write run: %w: entry of version %d out of order", errs.ErrInvalid, e.Version))
	case chunk.NewKey:
		if !w.cfg.NoFilter && !w.ranged {
			if len(w.hashes) == cap(w.hashes) {
				// append's smaller steps make more garbage.
				w.hashes = slices.Grow(w.hashes, len(w.hashes)+64)
			}
			w.hashes = append(w.hashes, h)
		}
	}
	return nil
}

// writable reports whether e is within the format's limits.
func writable(e *entry.Entry) bool {
	return e.Kind.Known() && len(e.Key) > 0 && len(e.Key) <= entry.MaxKey && len(e.Value) <= entry.MaxValue && e.Version <= entry.MaxVersion
}

// refs counts references to segments.
type refs struct {
	bySegment map[entry.FileNum]*layout.SegmentRef
	last      *layout.SegmentRef // the one that was counted last; nil: there is none
}

func newRefs() refs { return refs{bySegment: map[entry.FileNum]*layout.SegmentRef{}} }

// addEntry counts the reference that e has, if any.
func (r *refs) addEntry(e *entry.Entry) {
	if !e.Separated {
		return
	}
	// Handles that follow each other mostly lead to one segment: no look into the map.
	if h := &e.Handle; r.last == nil || r.last.Segment != h.Segment {
		if r.last = r.bySegment[h.Segment]; r.last == nil {
			r.last = &layout.SegmentRef{Segment: h.Segment}
			r.bySegment[h.Segment] = r.last
		}
	}
	r.last.Records++
	r.last.Bytes += e.Handle.Length
}

// sortedList returns the counts in the order of segments; nil if there are none.
func (r *refs) sortedList() (list []layout.SegmentRef) {
	for _, ref := range r.bySegment {
		list = append(list, *ref)
	}
	layout.SortRefs(list)
	return list
}

// flushChunk writes the chunk that is being built.
func (w *Writer) flushChunk() error {
	// Files end between chunks: a chunk never lies in two. The directory counts, too, so that the
	// whole file stays within FileBytes.
	size := int64(w.b.Size())
	if w.file != nil && w.offset+size+w.dirBytes > w.cfg.FileBytes {
		if err := w.finishFile(false); err != nil {
			return err
		}
	}
	if w.file == nil {
		if err := w.createFile(); err != nil {
			return w.failWith(err)
		}
	}
	image, info, err := w.b.Finish(&w.owner, w.offset, w.enc)
	if err != nil {
		return w.failWith(err)
	}
	if err := w.writeBytes(image); err != nil {
		return err
	}
	b := newBound(info.First, info.Shared, info.Prefix)
	w.dir.chunks = append(w.dir.chunks, record{
		Chunk: chunk.Chunk{Layout: info.Layout, Offset: w.offset - int64(len(image)), TrailerChecksum: info.TrailerChecksum},
		Stats: info.Stats, bound: b,
	})
	w.dirBytes += int64(recordSize + boundHead + len(b.key))
	// Range deletes are not counted among entries, and no filter has them.
	if w.ranged {
		return nil
	}
	w.stats.Merge(&info.Stats)
	if w.meta.First == nil {
		// The bound, as it is in the directory: checkMeta compares the two.
		w.meta.First = b.key
	}
	w.meta.Last = layout.UpperBound(info.Last)
	w.unfiltered++
	// Filters end with chunks: so the chunk of a key tells which filter has it.
	if len(w.hashes) < w.cfg.FilterKeys {
		return nil
	}
	return w.writeFilter(false)
}

// writeBytes appends b to the file.
func (w *Writer) writeBytes(b []byte) error {
	if _, err := w.out.Write(b); err != nil {
		return w.failWith(fmt.Errorf("write %s: %w", filename.Of(filename.Run, w.owner.Num), err))
	}
	w.offset += int64(len(b))
	return nil
}

// createFile begins the next file. In an encrypted store it writes the header page.
func (w *Writer) createFile() error {
	w.owner = chunk.Owner{UUID: w.cfg.UUID, Num: w.cfg.NextNum()}
	name := filepath.Join(w.cfg.Dir, filename.Of(filename.Run, w.owner.Num))
	f, err := w.cfg.FS.Create(name)
	if err != nil {
		return fmt.Errorf("create run: %w", err)
	}
	// Before anything else can fail: failWith removes what is listed.
	w.created = append(w.created, name)
	w.file, w.out = f, pageio.NewAppender(f)
	w.offset = 0
	w.dir = directory{encrypted: w.cfg.Ring != nil}
	w.dirBytes = 1 << 10
	if w.cfg.Ring == nil {
		return nil
	}
	if w.enc, w.keyID, err = w.cfg.Ring.New(cryptFile(&w.owner)); err != nil {
		return fmt.Errorf("create run: %w", err)
	}
	page, err := newHeader(&w.owner, w.enc, w.keyID)
	if err != nil {
		return fmt.Errorf("create run: %w", err)
	}
	return w.writeBytes(page)
}

// finishFile writes the directory and the footer, and makes the file durable. last says that it is
// the last one of the run.
func (w *Writer) finishFile(last bool) error {
	if w.cfg.About != nil {
		w.dir.about = []byte{0, 0, 0, 0, 0, 0, 0, 0}
		if last {
			// It tells a salvage that no file of the run is missing behind this one.
			w.dir.about[0] = aboutLast
		}
		w.dir.about = append(w.dir.about, w.cfg.About(w.meta.Files, w.meta.First, w.meta.Last)...)
	}
	dir, foot, err := w.encodeEnds()
	if err != nil {
		return w.failWith(err)
	}
	if err := w.writeBytes(dir); err != nil {
		return err
	}
	// The file is closed even if the flush or the sync fails, and then removed.
	f, flushed := w.file, w.out.Flush()
	w.file = nil
	if flushed == nil && !w.unsynced {
		flushed = f.Sync()
	}
	if err := errors.Join(flushed, f.Close()); err != nil {
		return w.failWith(fmt.Errorf("finish %s: %w", filename.Of(filename.Run, w.owner.Num), err))
	}
	w.meta.Files = append(w.meta.Files, layout.RunFile{Num: w.owner.Num, Size: uint64(w.offset), Checksum: foot.Checksum, KeyID: w.keyID})
	w.offset = 0
	return nil
}

// encodeEnds returns the directory and the footer as the file's last bytes, and the footer decoded.
func (w *Writer) encodeEnds() ([]byte, *footer, error) {
	dir := appendDirectory(nil, &w.dir)
	foot := &footer{DirOffset: uint64(w.offset), DirSize: uint64(len(dir)), Owner: w.owner,
		Cipher: w.keyID.Cipher, Key: w.keyID.Key, Salt: w.keyID.Salt}
	var err error
	if w.enc == nil {
		foot.DirSum = w.owner.ID().Sum(w.offset, dir)
	} else {
		dir = slices.Grow(dir, chunk.Room)
		if foot.DirTag, err = chunk.Encrypt(dir, crypt.Directory, w.offset, len(dir), nil, w.enc); err != nil {
			return nil, nil, err
		}
	}
	end, err := foot.encodeFooter(w.offset+int64(len(dir)), w.enc)
	return append(dir, end...), foot, err
}

// Finish completes the run and makes its files and their names durable. Without entries and range
// deletes there are no files.
func (w *Writer) Finish() (layout.RunMeta, error) {
	if w.err != nil {
		return layout.RunMeta{}, w.err
	}
	if err := w.finishRun(); err != nil {
		return layout.RunMeta{}, err
	}
	w.err = errFinished
	w.freeMemory()
	return w.meta, nil
}

// finishRun writes what is not written yet, and completes w.meta.
func (w *Writer) finishRun() error {
	if !w.b.Empty() {
		if err := w.flushChunk(); err != nil {
			return err
		}
	}
	// Who reads all the history asks only these spans: without them it would see nothing of it.
	if w.ranges.forests > 1 && !w.newest {
		return w.failWith(fmt.Errorf("write run: %w: %d forests without their newest spans", errs.ErrInvalid, w.ranges.forests))
	}
	if w.file == nil {
		return nil
	}
	// The last file has the filter of the last chunks, and knows of the range deletes of all.
	w.dir.ranges = w.ranges
	if err := w.writeFilter(true); err != nil {
		return err
	}
	if err := w.finishFile(true); err != nil {
		return err
	}
	// A file that was synced may still lose its name in a crash.
	if !w.unsynced {
		if err := w.cfg.FS.SyncDir(w.cfg.Dir); err != nil {
			return w.failWith(fmt.Errorf("sync directory of runs: %w", err))
		}
	}
	setStats(&w.meta, &w.stats)
	w.meta.AddRangeDeletes(&w.rangeDeletes)
	w.meta.Refs = w.refs.sortedList()
	if w.cfg.Expiries != nil {
		w.meta.Expiry = w.cfg.Expiries.List()
	}
	return nil
}

// Size is the length of what was written so far.
func (w *Writer) Size() int64 { return int64(w.meta.FileBytes()) + w.offset }

// Abandon is Abort, but without remove it leaves the files, for the next opening of the store to
// remove.
func (w *Writer) Abandon(remove bool) {
	if !remove {
		w.created = nil
	}
	w.Abort()
}

// Abort removes what was written. It does nothing after Finish.
func (w *Writer) Abort() {
	if w.err == nil {
		_ = w.failWith(errAborted)
	}
}

var (
	errAborted  = errors.New("run writer was aborted")
	errFinished = errors.New("run writer is finished")
)

// failWith makes err the result of all later calls, and removes the files. A file that cannot be
// removed is an orphan, which the next opening of the store removes.
func (w *Writer) failWith(err error) error {
	w.err = err
	if w.file != nil {
		w.out.Drop()
		_ = w.file.Close()
		w.file = nil
	}
	for _, name := range w.created {
		_ = w.cfg.FS.Remove(name)
	}
	w.freeMemory()
	return err
}

// freeMemory frees the memory of the Writer.
func (w *Writer) freeMemory() {
	// It lies outside the Go heap, so no collector would do it.
	w.b.Release()
	w.hashes, w.created, w.refs = nil, nil, refs{}
}

// setStats sets what m says of entries, which s counts.
func setStats(m *layout.RunMeta, s *chunk.Stats) {
	m.Entries, m.Deletes = s.Entries, s.Deletes
	m.KeyBytes, m.ValueBytes, m.SeparatedBytes = s.KeyBytes, s.ValueBytes, s.SeparatedBytes
	m.MinVersion, m.MaxVersion, m.MinExpiry = s.MinVersion, s.MaxVersion, s.MinExpiry
}
