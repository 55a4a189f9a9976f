package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/brockdb/brock/internal/checkpoint"
	"github.com/brockdb/brock/internal/compact"
	"github.com/brockdb/brock/internal/entry"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/iterator"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/manifest"
	"github.com/brockdb/brock/internal/run"
	"github.com/brockdb/brock/internal/run/meta"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/internal/view"
)

// Outputs says how the temporary files of a backup are written.
type Outputs struct {
	Next         func() entry.FileNum // a number that no file of the store has
	RunFileBytes int64
	SegmentBytes int64
	// About is run.WriterConfig.About for a run that is added to a layout.
	About func(*layout.Layout) func(before []meta.File, first, last []byte) []byte
}

// extractFiles is how many descriptors reading may have.
const extractFiles = 64

// extractor makes temporary files that have only some keyspaces of a store, or that are plain
// files of an encrypted store. For each run it writes one run, and segments with the values of
// its entries. So a run of which a stream before has the part is not read again, and nothing of
// other keyspaces gets into the stream.
type extractor struct {
	checkpoint.Source // of the store, and then of the files that were made
	*Outputs
	out  segment.Config     // how files are written; without a directory
	all  bool               // the stream has all keyspaces
	ids  []entry.KeyspaceID // ascending
	open *files.Opener
	view view.View

	edit    *layout.Edit // that makes the layout
	part    *Part
	origins map[layout.RunID]origin
	outs    []*compact.Output

	had       *layout.Layout // of the stream before; nil: there is none
	known     map[origin]layout.RunID
	used      map[entry.FileNum]bool // numbers of files of the stream before
	elsewhere map[filename.Name]bool // files of the layout that only the stream before has

	progress            func(Progress) // may be nil
	prepared, toPrepare int64
	end                 int64 // prepared after the run that is being copied
}

// newExtractor returns an extractor for the keyspaces of o. Call remove at the end, also after an
// error or a panic of extract.
func newExtractor(s checkpoint.Source, o *Options) *extractor {
	x := &extractor{
		Source: s, Outputs: &o.Outputs, part: &Part{Keyspaces: o.keyspaces()}, all: len(o.Keyspaces) == 0, origins: map[layout.RunID]origin{},
		used: map[entry.FileNum]bool{}, elsewhere: map[filename.Name]bool{}, known: map[origin]layout.RunID{},
		out: segment.Config{FS: s.FS, UUID: s.UUID, Ring: s.Ring}, progress: o.Progress,
	}
	if s.Ring != nil && o.Plain {
		x.out.FS, x.out.Ring, x.out.Once = newVeil(s.FS, s.UUID), nil, true
	}
	x.part.sealed = x.out.Ring != nil
	return x
}

// extract makes the files. From then on x.Source has them instead of the store.
func (x *extractor) extract(ctx context.Context, o *Options) error {
	if err := x.begin(); err != nil {
		return err
	}
	if o.Since != nil {
		if err := x.since(o.Since); err != nil {
			return err
		}
	}
	s := x.Source
	x.open = files.New(files.Config{
		FS: s.FS, Dir: s.Dir, ValueDir: s.ValueDir, UUID: s.UUID, Ring: s.Ring, Seed: s.Seed, NoMap: true, OpenFiles: extractFiles,
	}, nil)
	defer x.view.Close()
	if err := x.open.OpenLayout(s.Layout, &x.view); err != nil {
		return err
	}
	x.expect()
	// Oldest first: each run describes the older ones.
	for i, m := range slices.Backward(s.Layout.Runs()) {
		if err := x.run(ctx, m, x.view.Runs[i]); err != nil {
			return err
		}
	}
	return x.finish()
}

// begin finds the keyspaces, and begins the layout: that of the store, without files and without
// other keyspaces. In it, the other keyspaces were dropped.
func (x *extractor) begin() error {
	e := x.Layout.Snapshot()
	x.edit = &layout.Edit{
		FlushedTo: e.FlushedTo, JournalEnds: e.JournalEnds, LastVersion: e.LastVersion, Floor: e.Floor, Clock: e.Clock,
		NextFile: e.NextFile, NextKeyspace: e.NextKeyspace, CleanClose: e.CleanClose,
	}
	if x.out.Ring != nil {
		x.edit.DataKey = e.DataKey
	}
	if x.all {
		x.part.Keyspaces = []string{""}
		for _, k := range e.SetKeyspaces {
			x.part.Keyspaces = append(x.part.Keyspaces, k.Name)
		}
		slices.Sort(x.part.Keyspaces)
	}
	for _, name := range x.part.Keyspaces {
		if name == "" {
			x.ids = append(x.ids, entry.DefaultKeyspace)
			continue
		}
		i := slices.IndexFunc(e.SetKeyspaces, func(k layout.Keyspace) bool { return k.Name == name })
		if i < 0 {
			return fmt.Errorf("%w: %q", errs.ErrKeyspaceNotFound, name)
		}
		x.ids = append(x.ids, e.SetKeyspaces[i].ID)
		x.edit.SetKeyspaces = append(x.edit.SetKeyspaces, e.SetKeyspaces[i])
	}
	slices.Sort(x.ids)
	slices.SortFunc(x.edit.SetKeyspaces, func(a, b layout.Keyspace) int { return int(int64(a.ID) - int64(b.ID)) })
	x.edit.KeyspaceFloors = slices.DeleteFunc(e.KeyspaceFloors, func(f layout.KeyspaceFloor) bool { return x.other(f.ID) })
	return nil
}

// other reports whether a keyspace is not wanted.
func (x *extractor) other(id entry.KeyspaceID) bool {
	_, found := slices.BinarySearch(x.ids, id)
	return !found
}

// since reads what the stream before has.
func (x *extractor) since(i *Info) (err error) {
	if x.had, err = decodeLayout(i.Part.layout); err != nil {
		return err
	}
	for n, r := range x.had.Runs() {
		x.known[i.Part.Origins[n]] = r.ID
	}
	for _, f := range i.Files {
		x.used[f.Name.Number] = true
	}
	return nil
}

// next returns a number that no file of the store or of the stream before has. After a crash
// the store may use a number again that a backup had.
func (x *extractor) next() entry.FileNum {
	for {
		if n := x.Next(); !x.used[n] {
			return n
		}
	}
}

// run adds the part of a run to the layout.
func (x *extractor) run(ctx context.Context, m *layout.Run, r *view.Run) error {
	from := x.originOf(m)
	if id, ok := x.known[from]; ok {
		x.keep(id, m, from)
		return nil
	}
	below, err := layout.New().Apply(x.edit)
	if err != nil {
		return err
	}
	x.end = x.prepared + readBytes(m)
	out, err := x.copy(ctx, r, m, below)
	if err != nil {
		return err
	}
	x.reached(x.end)
	for _, added := range files.NewRuns(out.Run, m.Tier) {
		added.Order = m.Order
		x.origins[added.ID] = from
		x.edit.AddRuns = append(x.edit.AddRuns, added)
	}
	files.Describe(x.edit, below, out)
	return nil
}

// originOf returns a hash that identifies the run and the keyspaces that are taken of it.
func (x *extractor) originOf(m *layout.Run) (o origin) {
	h := sha256.New()
	put := func(n uint64) { h.Write(binary.LittleEndian.AppendUint64(nil, n)) }
	for _, f := range m.Files {
		put(uint64(f.Num))
		put(f.Size)
		put(uint64(f.Checksum))
	}
	if !x.all { // a backup of all keyspaces may be followed by one of more keyspaces
		for _, id := range x.ids {
			put(uint64(id))
		}
	}
	copy(o[:], h.Sum(nil))
	return o
}

// keep adds a run that the stream before has, and its segments.
func (x *extractor) keep(id layout.RunID, m *layout.Run, from origin) {
	r := *x.had.Run(id)
	r.Order, r.Tier = m.Order, m.Tier // a compaction of others may have moved it
	x.origins[id] = from
	x.edit.AddRuns = append(x.edit.AddRuns, r)
	for _, f := range r.Files {
		x.elsewhere[filename.New(filename.Run, f.Num)] = true
	}
	for _, ref := range r.Refs {
		x.edit.AddSegments = append(x.edit.AddSegments, *x.had.Segment(ref.Segment))
		x.elsewhere[filename.New(filename.Value, ref.Segment)] = true
	}
}

// copy writes the entries of the keyspaces that a run has, all versions of them, with their
// values. It calls progress on this goroutine, and leaves nothing behind if that panics.
func (x *extractor) copy(ctx context.Context, r *view.Run, m *layout.Run, below *layout.Layout) (out *compact.Output, err error) {
	ctx, cancel := context.WithCancel(ctx)
	from := &within{Iterator: r.Copier(), ids: x.ids, ctx: ctx, steps: make(chan int64)}
	out = new(compact.Output)
	ended := make(chan error, 1)
	go func() {
		defer close(from.steps)
		var err error
		*out, err = x.execute(ctx, from, r, m, below)
		ended <- err
	}()
	defer func() {
		cancel()
		if err = <-ended; err == nil {
			x.outs = append(x.outs, out)
		}
	}()
	for n := range from.steps {
		x.reached(min(x.prepared+n, x.end))
	}
	return out, nil
}

func (x *extractor) execute(ctx context.Context, from *within, r *view.Run, m *layout.Run, below *layout.Layout) (compact.Output, error) {
	tombstones, done := view.TombstonesOf([]*view.Run{r})
	defer done()
	return compact.Execute(ctx, compact.Input{
		Entries: from,
		// Nothing is at or below the watermark, so nothing of the keyspaces is dropped.
		Rules: compact.Rules{Dropped: x.other, Tombstones: tombstones},
		Heal:  x.view.Healing(),
		Run: run.NewWriter(run.WriterConfig{
			FS: x.out.FS, Dir: x.Dir, UUID: x.UUID, Ring: x.out.Ring, Seed: x.Seed, NextNum: x.next, FileBytes: x.RunFileBytes,
			NoFilter: m.Tier == layout.Base, Expiries: entry.NewExpiries(uint64(max(x.Milli, 1)), m.Expiry), About: x.About(below),
		}),
		Extract: func(entry.FileNum) bool { return true },
		Move:    x.view.Move,
		Values: func() (*segment.ValueWriter, error) {
			to := x.out
			to.Dir = x.ValueDir
			return segment.NewValueWriter(to, x.next())
		},
		ValueBytes: x.SegmentBytes,
	})
}

// expect computes how many bytes are to be read.
func (x *extractor) expect() {
	for _, m := range x.Layout.Runs() {
		if _, ok := x.known[x.originOf(m)]; !ok {
			x.toPrepare += readBytes(m)
		}
	}
	if x.toPrepare > 0 {
		x.reached(0)
	}
}

// readBytes returns the length of a run with its values.
func readBytes(m *layout.Run) int64 {
	n := m.FileBytes()
	for _, ref := range m.Refs {
		n += ref.Bytes
	}
	return int64(n)
}

// reached calls progress: n bytes are prepared.
func (x *extractor) reached(n int64) {
	if x.prepared = n; x.progress != nil {
		x.progress(Progress{Prepared: n, ToPrepare: x.toPrepare})
	}
}

// finish makes the layout.
func (x *extractor) finish() (err error) {
	for _, r := range x.edit.AddRuns {
		for _, f := range r.Files {
			x.edit.NextFile = max(x.edit.NextFile, f.Num+1)
		}
	}
	for _, s := range x.edit.AddSegments {
		x.edit.NextFile = max(x.edit.NextFile, s.Num+1)
	}
	if x.Layout, err = layout.New().Apply(x.edit); err != nil {
		return err
	}
	for _, r := range x.Layout.Runs() {
		x.part.Origins = append(x.part.Origins, x.origins[r.ID])
	}
	x.part.layout = manifest.AppendEdit(nil, x.Layout.Snapshot())
	x.FS, x.Ring = x.out.FS, x.out.Ring
	return nil
}

// remove removes the files that were made.
func (x *extractor) remove() {
	for _, out := range x.outs {
		x.open.RemoveOutputs(out)
	}
}

// within walks the entries of some keyspaces only, forwards.
type within struct {
	iterator.Iterator
	ids []entry.KeyspaceID // ascending
	end []byte             // bound of the one that it is in

	ctx   context.Context
	bytes int64      // of entries since the last step
	steps chan int64 // gets about every reportBytes of them
}

// First moves to the first entry.
func (w *within) First() bool { return w.enter(w.Iterator.SeekGE(entry.AppendKeyspace(nil, w.ids[0]))) }

// Next moves on.
func (w *within) Next() bool {
	ok := w.Iterator.Next()
	if ok && bytes.Compare(w.Entry().Key, w.end) < 0 {
		w.count()
		return true
	}
	return w.enter(ok)
}

// count counts the entry that it has come to.
func (w *within) count() {
	e := w.Entry()
	w.bytes += int64(len(e.Key)) + int64(e.ValueLen())
	if w.bytes < reportBytes {
		return
	}
	select {
	case w.steps <- w.bytes:
		w.bytes = 0
	case <-w.ctx.Done():
	}
}

// enter goes on to the next entry of a keyspace that is wanted, if there is one here.
func (w *within) enter(ok bool) bool {
	for ok {
		id, _ := entry.KeyspaceOf(w.Entry().Key)
		i, found := slices.BinarySearch(w.ids, id)
		if found {
			w.end = entry.AfterKeyspace(id)
			w.count()
			return true
		}
		if i == len(w.ids) {
			return false
		}
		ok = w.SeekGE(entry.AppendKeyspace(nil, w.ids[i]))
	}
	return false
}
