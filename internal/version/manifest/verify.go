package manifest

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/disk/pageio"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// Verify reads SUPER, the keyring and the manifest again and calls report for all damage, also
// for damage that Open tolerates: a store opens with one slot of SUPER, but should have two.
// It returns an error if it could not go on.
func (l *Log) Verify(report func(*errs.Corruption)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range []superFile{l.super, l.values} {
		if s.dir == "" || l.o.ReadOnly && !s.ok {
			continue // values have no directory of their own, or a crash came before it had a SUPER
		}
		if err := l.verifySuper(&s, report); err != nil {
			return err
		}
	}
	if l.ring != nil {
		if err := keyring.VerifyNewest(l.o.FS, l.o.Dir, l.super.UUID, report); err != nil {
			return err
		}
	}
	name := filename.Of(filename.Manifest, l.super.Manifest)
	var end frame.End
	err := readManifest(l.o.FS, l.o.Dir, &l.super.Super, l.ring, func(r *reader) (err error) {
		if err = r.checkHeader(); err == nil {
			// Edits were applied when the log was opened. Here checksums and the chain are enough.
			end, err = r.scanFrames(r.first, func(int64, *frame.Header, []byte) error { return nil })
		}
		return err
	})
	var c *errs.Corruption
	switch {
	case errors.As(err, &c):
		report(c)
	case err != nil:
		return err
	// Sound as far as it goes, but this process has written more.
	case end.Offset < l.end.Offset:
		report(errs.NewCorruption(name, end.Offset, "ends here; it was written up to %d", l.end.Offset))
	}
	return nil
}

// verifySuper checks a SUPER as it is now.
func (l *Log) verifySuper(now *superFile, report func(*errs.Corruption)) error {
	super := filename.Of(filename.Super, 0)
	p, err := pageio.ReadHead(l.o.FS, filepath.Join(now.dir, super), superSize)
	if err != nil {
		return fmt.Errorf("read %s: %w", super, err)
	}
	p = append(p, make([]byte, superSize-len(p))...)
	slots := [2]slot{decodeSlot(p[:slotSize], 0), decodeSlot(p[slotSize:], slotSize)}
	for i, s := range slots {
		off, other := i*slotSize, slots[1-i]
		switch {
		case s.ok && s.UUID == l.super.UUID && s.decryptFields(now.key) == nil:
		// A crash may have come when only the first slot was written, and only a writer writes the other.
		case l.o.ReadOnly && other.ok && other.Epoch == 1 && allZero(p[off:off+slotSize]):
		default:
			report(errs.NewCorruption(super, int64(off), "the slot in %s has no valid checksum or tag, or is another store's; "+
				"if the other one is whole, the next opening for writing writes this one again", now.dir))
		}
	}
	return nil
}
