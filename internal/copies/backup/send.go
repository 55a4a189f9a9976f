package backup

import (
	"context"
	"errors"
	"sync"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/copies/checkpoint"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/vfs"
)

// sender reads and verifies the files of a store, on a goroutine of its own, ahead of the writer.
type sender struct {
	checkpoint.Fileset
	ctx    context.Context
	steady *checkpoint.Steady   // reads files, and compares with what was read before
	verify *checkpoint.Verifier // reads through steady
	files  []*planned           // of the layout, in the order of the stream

	file vfs.File    // the one that is being sent
	sent int64       // how many bytes of it were sent
	out  chan *piece // pieces for the writer
	used sync.Pool   // of pieces that the writer has written
}

// piece is a part of the stream on its way to the writer: the beginning of a file, or bytes of
// it.
type piece struct {
	begins *planned // nil: the next bytes of the file
	buf    []byte   // has room for the head of a record, and then the bytes
}

// pieces is how many are on their way to the writer, at most: 8 MB.
const pieces = 32

// newSender returns a sender of the files of s.
func newSender(ctx context.Context, s checkpoint.Fileset) *sender {
	t := &sender{Fileset: s, ctx: ctx, steady: checkpoint.NewSteady(s.FS)}
	s.FS = t.steady
	t.verify = checkpoint.NewVerifier(s)
	t.out, t.used.New = make(chan *piece, pieces), func() any { return new(piece) }
	return t
}

// sendFiles sends all files of the plan, and then closes out.
func (s *sender) sendFiles() error {
	// The writer reads until then, and learns the error afterwards.
	defer close(s.out)
	defer s.verify.Close()
	for _, f := range s.files {
		if err := s.sendPiece(&piece{begins: f}); err != nil {
			return err
		}
		if f.kept {
			continue
		}
		if err := s.sendContent(f); err != nil {
			return err
		}
	}
	return nil
}

// sendContent verifies a file and sends it.
func (s *sender) sendContent(f *planned) (err error) {
	path := s.Path(f.Name)
	defer s.steady.Forget(path)
	if s.file, err = s.steady.Open(path); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.file.Close()) }()
	// Through steady: the fingerprint that the stream has is that of the bytes that are sent.
	if got, err := s.printOf(s.file, &f.sent); err != nil || got != f.sent.Print {
		return errors.Join(err, errs.NewCorruption(f.Name.String(), -1, "other bytes than a moment ago"))
	}
	s.sent = 0
	// Verified first, then sent, a few megabytes later: steady still has them in memory, so the
	// disk is read once.
	err = s.verify.File(f.File, func(to int64) error { return s.sendUpTo(min(to, f.sent.Size) / pieceBytes * pieceBytes) })
	if err != nil {
		return err
	}
	return s.sendUpTo(f.sent.Size)
}

// sendUpTo sends the bytes of the file up to an offset.
func (s *sender) sendUpTo(to int64) error {
	for s.sent < to {
		p := s.used.Get().(*piece)
		p.buf = withLength(p.buf, recordSize+int(min(pieceBytes, to-s.sent)))
		b := p.buf[recordSize:]
		// steady returns an error if these are not the bytes that were verified.
		if err := pageio.ReadFull(s.file, b, s.sent); err != nil {
			return err
		}
		s.sent += int64(len(b))
		if err := s.sendPiece(p); err != nil {
			return err
		}
	}
	return nil
}

// sendPiece gives a piece to the writer, once there is room, unless the context has ended.
func (s *sender) sendPiece(p *piece) error {
	select {
	case s.out <- p:
	case <-s.ctx.Done():
	}
	// If both are ready, select chooses any: nothing is read after the end of ctx.
	return errs.Ended(s.ctx)
}
