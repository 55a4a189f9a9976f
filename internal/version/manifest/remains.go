package manifest

import (
	"errors"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// What a salvage reads of a manifest that Load refuses.

// ReadOwner is the store that the manifest num says it belongs to; ok is false if its header is
// damaged.
func ReadOwner(fsys vfs.FS, dir string, num entry.FileNum) (uuid [16]byte, ok bool) {
	p, err := pageio.ReadHead(fsys, filepath.Join(dir, filename.Of(filename.Manifest, num)), fileHeader)
	if err != nil || len(p) < fileHeader {
		return uuid, false
	}
	uuid = [16]byte(p[24:40])
	_, _, err = decodeFileHeader(p, uuid, num)
	return uuid, err == nil
}

// Remains is what is left of the manifests of a store.
type Remains struct {
	Number entry.FileNum  // of the manifest that was read; 0 = there is none
	Layout *layout.Layout // as of the last edit that fits those before it
	Edits  []*layout.Edit // those behind Layout that can be read, in the order of the file
	Whole  bool           // no edit is known to be missing
	Proven bool           // SUPER says that there is no later one
	Damage []*errs.Corruption
}

// ReadRemains reads the manifest num as far as that is possible. If it is the one that super names,
// super also says which of its frames was durable. ring is nil for a plain store.
func ReadRemains(fsys vfs.FS, dir string, uuid [16]byte, num entry.FileNum, super *Super, ring *crypt.Ring) (*Remains, error) {
	if super.Manifest != num {
		super = &Super{UUID: uuid, Manifest: num}
	}
	m := &Remains{Number: num, Layout: layout.New(), Whole: true}
	err := readManifest(fsys, dir, super, ring, func(r *reader) error {
		// If the header is damaged, SUPER says whether the manifest is encrypted: ring follows it.
		if encrypted, err := r.readHeader(); err == nil && !encrypted && ring != nil {
			m.noteLoss(-1, nil, "it is plain, and the store is encrypted")
			return nil
		}
		return m.readLog(r)
	})
	if isAbsent(err) {
		return &Remains{Layout: layout.New()}, nil
	}
	return m, err
}

// noteLoss notes that an edit is missing, or that it isn't the one that was written. why may be nil.
func (m *Remains) noteLoss(at int64, why error, format string, args ...any) {
	m.Whole = false
	c := errs.NewCorruption(filename.Of(filename.Manifest, m.Number), at, format, args...)
	c.Err = why
	m.Damage = append(m.Damage, c)
}

// readLog reads all frames that are whole, wherever they are, and notes what is missing between
// them.
func (m *Remains) readLog(r *reader) error {
	durable, next := max(r.super.Durable, 1), uint64(1)
	for at := int64(fileHeader); at < r.size; {
		h, payload, err := r.readFrame(at)
		var e *layout.Edit
		if err == nil {
			e, err = DecodeEdit(payload)
		}
		switch {
		// No damage: a newer release, or the right key, can read it. Salvage must not lose it.
		case errors.Is(err, errs.ErrFormat) || errors.Is(err, errs.ErrKey):
			return err
		case err != nil:
			// Torn or damaged: the edit may have been true.
			m.noteLoss(at, nil, "edit %d can't be read", next)
			// Not at + h.Size: the length of a damaged frame can't be trusted.
			_, at = frame.FindHeader(r.id, 0, at+8, r.size, func(off, n int64) []byte {
				b, _ := r.readBytes(off, n)
				return b
			})
			continue
		}
		end := frame.End{Name: frame.Name{File: m.Number}, Offset: at}
		if end.Advance(&h); !r.super.agreesWith(end.Name) {
			m.noteLoss(at, nil, "edit %d is not the one that SUPER names", h.Number)
		}
		m.applyEdit(at, e, h.Number == next)
		next, at = end.Number+1, end.Offset
	}
	if next <= durable && m.Whole {
		m.noteLoss(r.size, nil, "edit %d is missing", next)
	}
	m.Proven = m.Whole && next == durable+1
	return nil
}

// applyEdit applies an edit, or keeps it if it doesn't fit.
func (m *Remains) applyEdit(at int64, e *layout.Edit, follows bool) {
	// After a gap no edit is applied: what is missing could have dropped what this one needs.
	if follows && m.Whole {
		l, err := m.Layout.Apply(e)
		if err == nil {
			m.Layout = l
			return
		}
		m.noteLoss(at, err, "the edit can't be applied")
	}
	m.Whole = false
	m.Edits = append(m.Edits, e)
}
