package backup

import (
	"context"
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/checkpoint"
	"github.com/brockdb/brock/internal/errs"
	"github.com/brockdb/brock/internal/filename"
	"github.com/brockdb/brock/internal/files"
	"github.com/brockdb/brock/internal/layout"
	"github.com/brockdb/brock/internal/segment"
	"github.com/brockdb/brock/vfs"
)

// sender reads and verifies the files of a store, on a goroutine of its own, ahead of the writer.
type sender struct {
	checkpoint.Source
	ctx    context.Context
	steady *checkpoint.Steady
	open   *files.Opener
	*plan

	file vfs.File // that is being sent
	sent int64    // bytes of it
	out  chan *piece
	free chan *piece
}

// piece is a part of the stream on its way to the writer: the beginning of a file, or bytes of
// it, with room for the head of a record before them.
type piece struct {
	begins bool
	file   File
	kept   bool

	buf   []byte
	n     int
	zeros bool
}

const (
	pieces      = 32      // on their way to the writer at most: 8 MB
	verifyBytes = 4 << 20 // bytes verified before they are sent; checkpoint.Steady holds 8 MB in memory
	openFiles   = 64      // descriptors
)

func newSender(s checkpoint.Source) *sender {
	t := &sender{Source: s, steady: checkpoint.NewSteady(s.FS)}
	t.open = files.New(files.Config{
		FS: t.steady, Dir: s.Dir, ValueDir: s.ValueDir, UUID: s.UUID, Ring: s.Ring, Seed: s.Seed, NoMap: true, OpenFiles: openFiles,
	})
	t.out, t.free = make(chan *piece, pieces), make(chan *piece, pieces)
	for range pieces {
		t.free <- new(piece)
	}
	return t
}

// run sends all files of the plan, and then closes out.
func (s *sender) run() error {
	defer close(s.out)
	for _, r := range s.Layout.Runs() {
		if err := s.sendRun(r); err != nil {
			return err
		}
	}
	for _, g := range s.Layout.Segments() {
		if err := s.sendSegment(g); err != nil {
			return err
		}
	}
	return nil
}

// sendRun sends those files of a run that no stream before has.
func (s *sender) sendRun(m *layout.Run) (err error) {
	var wanted []filename.Name
	for _, f := range m.Files {
		name := filename.New(filename.Run, f.Num)
		if !s.kept[name] {
			wanted = append(wanted, name)
		} else if err := s.begin(name); err != nil {
			return err
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	r, err := s.open.OpenRun(m)
	if err != nil {
		return files.Missing(err, "a run that the manifest names")
	}
	defer func() {
		r.Discard()
		for _, f := range m.Files {
			s.steady.Forget(s.open.Path(filename.New(filename.Run, f.Num)))
		}
	}()
	var found *errs.Corruption
	for _, name := range wanted {
		at := int64(0)
		err := s.sendFile(name, func() (int64, bool, error) {
			var done bool
			at, done = r.Scrub(name.Number, at, verifyBytes, func(c *errs.Corruption) { found = c })
			if found != nil {
				return at, true, found
			}
			return at, done, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sendSegment sends a segment, or the remap of a relocated one, unless a stream before has it.
func (s *sender) sendSegment(g *layout.Segment) error {
	name := filename.New(g.Kind, g.Num)
	relocated := g.State().Status == layout.Relocated
	if relocated {
		name = filename.New(filename.Remap, g.State().Map)
	}
	if s.kept[name] {
		return s.begin(name)
	}
	defer s.steady.Forget(s.open.Path(name))
	if relocated {
		return s.sendFile(name, func() (int64, bool, error) {
			m, err := segment.OpenRemap(s.open.Segments(), name.Number, g.State().Life, true) // verifies all of it
			if err == nil {
				err = m.Close()
			}
			return 0, true, err
		})
	}
	r, err := s.open.OpenSegment(g.Kind, g.Num, files.OptionsOf(g))
	if err != nil {
		return files.Missing(err, "a segment that the manifest names")
	}
	defer r.Discard()
	at := new(segment.Scrubbed)
	return s.sendFile(name, func() (int64, bool, error) {
		done, err := r.Scrub(s.open.Segments(), at, verifyBytes)
		return at.Offset(), done, err
	})
}

// sendFile sends a file. Each call of verify verifies some more of it, and returns the offset up
// to which it was verified, and whether that is all.
func (s *sender) sendFile(name filename.Name, verify func() (to int64, done bool, err error)) (err error) {
	if s.file, err = s.steady.Open(s.open.Path(name)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.file.Close()) }()
	f := s.files[name]
	if got, err := s.printOf(s.file, name, f.Size); err != nil || got != f.Print {
		return errors.Join(err, errs.NewCorruption(name.String(), -1, "other bytes than a moment ago"))
	}
	if err := s.begin(name); err != nil {
		return err
	}
	s.sent = 0
	for {
		to, done, err := verify()
		if err != nil {
			return err
		}
		if done {
			return s.send(f.Size)
		}
		if err := s.send(min(to, f.Size) / pieceBytes * pieceBytes); err != nil {
			return err
		}
	}
}

// begin tells the writer that the pieces of a file follow, or that the stream before has it.
func (s *sender) begin(name filename.Name) error {
	p, err := s.piece()
	if err != nil {
		return err
	}
	p.begins, p.file, p.kept = true, s.files[name], s.kept[name]
	s.out <- p
	return nil
}

// send sends the bytes of the file up to an offset.
func (s *sender) send(to int64) error {
	for s.sent < to {
		p, err := s.piece()
		if err != nil {
			return err
		}
		p.begins, p.n = false, int(min(pieceBytes, to-s.sent))
		if cap(p.buf) < recordSize+p.n {
			p.buf = make([]byte, recordSize+p.n)
		}
		p.buf = p.buf[:recordSize+p.n]
		b := p.buf[recordSize:]
		if n, err := s.file.ReadAt(b, s.sent); n < len(b) {
			return fmt.Errorf("%s: %w", s.file.Name(), err)
		}
		p.zeros = allZero(b)
		s.sent += int64(p.n)
		s.out <- p // has room for all there are
	}
	return nil
}

// piece returns a free piece.
func (s *sender) piece() (*piece, error) {
	select {
	case p := <-s.free:
		return p, errs.Ended(s.ctx)
	case <-s.ctx.Done():
		return nil, errs.Ended(s.ctx)
	}
}
