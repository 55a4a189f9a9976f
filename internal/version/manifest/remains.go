package manifest

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/vlog/frame"
	"github.com/brockdb/brock/vfs"
)

// What a salvage reads of a manifest that Load refuses.

// Owner is the store that the manifest num says it belongs to; ok is false if its header is
// damaged.
func Owner(fsys vfs.FS, dir string, num entry.FileNum) (uuid [16]byte, ok bool) {
	p, err := readFile(fsys, filepath.Join(dir, filename.Of(filename.Manifest, num)), fileHeader)
	if err != nil || len(p) < fileHeader {
		return uuid, false
	}
	uuid = [16]byte(p[24:40])
	_, err = decodeFileHeader(p, uuid, num)
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
		super = &Super{}
	}
	m := &Remains{Number: num, Layout: layout.New(), Whole: true}
	err := readManifest(fsys, dir, num, func(f io.ReaderAt, size int64) error {
		r := &reader{f: f, size: size, id: manifestIdentity(uuid, num)}
		head, err := r.readBytes(0, min(size, fileHeader))
		if err != nil {
			return err
		}
		// If the header is damaged, SUPER says whether the manifest is encrypted: ring follows it.
		h, err := decodeFileHeader(head, uuid, num)
		if h.encrypted || err != nil {
			r.enc = newEncryption(ring, uuid, num)
		} else if ring != nil {
			m.Whole = false
			m.Damage = append(m.Damage, errs.NewCorruption(filename.Of(filename.Manifest, num), -1, "it is plain, and the store is encrypted"))
			return nil
		}
		return m.readLog(r, super)
	})
	if notThere(err) {
		return &Remains{Layout: layout.New()}, nil
	}
	return m, err
}

// readLog reads all frames that are whole, wherever they are, and notes what is missing between
// them.
func (m *Remains) readLog(r *reader, super *Super) error {
	durable := max(super.Durable, 1)
	name := filename.Of(filename.Manifest, m.Number)
	next := uint64(1)
	for at := int64(fileHeader); at < r.size; {
		h, payload, err := r.frame(at)
		var e *layout.Edit
		if err == nil {
			e, err = DecodeEdit(payload)
		}
		// No damage: a newer release, or the right key, can read it. Salvage must not lose it.
		if errors.Is(err, errs.ErrFormat) || errors.Is(err, errs.ErrKey) {
			return err
		}
		if err == nil {
			end := frame.Cursor{Offset: at}
			if end.Advance(&h); !super.agrees(end) {
				m.Whole = false
				m.Damage = append(m.Damage, errs.NewCorruption(name, at, "edit %d is not the one that SUPER names", h.Number))
			}
			m.applyEdit(name, at, e, h.Number == next)
			next = h.Number + 1
			at += h.Size
			continue
		}
		// Torn or damaged: the edit may have been true.
		m.Whole = false
		m.Damage = append(m.Damage, errs.NewCorruption(name, at, "edit %d can't be read", next))
		// Not at + h.Size: the length of a damaged frame can't be trusted.
		at = m.behind(r, at)
	}
	if next <= durable && m.Whole {
		m.Whole = false
		m.Damage = append(m.Damage, errs.NewCorruption(name, r.size, "edit %d is missing", next))
	}
	m.Proven = m.Whole && next == durable+1
	return nil
}

// applyEdit applies an edit, or keeps it if it doesn't fit.
func (m *Remains) applyEdit(name string, at int64, e *layout.Edit, follows bool) {
	// After a gap no edit is applied: what is missing could have dropped what this one needs.
	if follows && m.Whole && len(m.Edits) == 0 {
		l, err := m.Layout.Apply(e)
		if err == nil {
			m.Layout = l
			return
		}
		m.Damage = append(m.Damage, &errs.Corruption{File: name, Offset: at, Reason: "the edit can't be applied", Err: err})
	}
	m.Whole = false
	m.Edits = append(m.Edits, e)
}

// behind returns where the next whole frame header begins behind at; the file's end if there
// is none.
func (m *Remains) behind(r *reader, at int64) int64 {
	const step = 1 << 20
	for at += 8; at+frame.HeaderSize <= r.size; at += step - frame.HeaderSize + 8 {
		b, err := r.readBytes(at, min(step, r.size-at))
		if err != nil {
			continue
		}
		if _, pos, ok := frame.Search(b, r.id, at); ok {
			return at + int64(pos)
		}
	}
	return r.size
}
