package salvage

import (
	"errors"
	"fmt"

	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/disk/keyring"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/vlog/segment"
)

// openKeys makes the keys of an encrypted store, and returns all that SUPER says, which may be
// damaged. Without its keyring, nothing of such a store can be read.
func (v *survey) openKeys(super manifest.Super) (manifest.Super, error) {
	known := super.UUID != [16]byte{}
	// Without SUPER nobody says so. The presence of keys does.
	encrypted := super.Encrypted() || !known && (v.keys != nil || len(v.files[filename.Keyring]) > 0)
	switch {
	case encrypted && v.keys == nil:
		return super, fmt.Errorf("%w: the store is encrypted, and Keys is nil", errs.ErrKey)
	case !encrypted && v.keys != nil:
		return super, fmt.Errorf("%w: Keys is set, and the store is not encrypted", errs.ErrKey)
	case !encrypted:
		return super, nil
	}
	content, err := keyring.Load(v.FS, v.Dir, v.UUID)
	if err != nil {
		return super, err
	}
	if v.Ring, err = content.Ring(v.keys); err != nil {
		return super, err
	}
	// Before anything is read: with wrong keys all files would look damaged, and all would be
	// reported lost.
	if err := v.checkKeys(content); err != nil || !known {
		return super, err
	}
	whole, err := manifest.OpenSuper(v.FS, v.Dir, v.Ring)
	if err != nil {
		// Its checksum is right, and so are the keys: somebody has changed it.
		v.reportLoss(&errs.Corruption{File: filename.Of(filename.Super, 0), Offset: -1, Reason: "it can't be decrypted", Err: err})
		return super, nil
	}
	return whole, nil
}

// checkKeys returns errs.ErrKey if no data key can be unwrapped. Files under a single one that
// can't are lost.
func (v *survey) checkKeys(content *keyring.Content) (err error) {
	for _, k := range content.Keys {
		// Opening any file has the key unwrapped, and checked.
		if _, err = v.Ring.Open(crypt.File{}, crypt.FileKeyID{Key: k.ID, Cipher: k.Cipher}); err == nil {
			return nil
		}
	}
	return err
}

// refusePlain closes a file and returns an error if the file doesn't count as it is plain. Who can
// write files of an encrypted store, and has no key, can put any plain one there. So only those
// count that an edit, or an encrypted run, says to be plain, as EncryptStore leaves them.
func (v *survey) refusePlain(name filename.Name, f interface {
	Plain() bool
	Close() error
}) error {
	keyID, told := v.keyIDs[name]
	if v.Ring == nil || !f.Plain() || told && keyID.IsZero() {
		return nil
	}
	return errors.Join(errs.NewCorruption(name.String(), -1, "it is plain, and nothing that is encrypted says that it should be"), f.Close())
}

// openRun opens what is left of a file of a run.
func (v *survey) openRun(num entry.FileNum) (*run.Remains, error) {
	name := filename.New(filename.Run, num)
	r, err := run.OpenRemains(v.runConfig(), num, v.stamps[name], v.keyIDs[name])
	if err == nil {
		err = v.refusePlain(name, r)
	}
	return r, err
}

// endOf returns the recorded end of a segment, to which it is read and no further; 0 if no end is
// recorded. Behind it lies what a crash has left.
func (v *survey) endOf(name filename.Name) int64 {
	if s := v.layout.Segment(name.Number); s != nil && s.Kind == name.Kind {
		return int64(s.FileBytes)
	}
	ends := v.layout.JournalEnds()
	if n := len(ends); n > 0 && v.layout.CleanClose() && name.Kind == filename.Journal && ends[n-1].File == name.Number {
		return ends[n-1].Offset
	}
	return 0
}

// openedSegment is what is left of a segment.
type openedSegment struct {
	*segment.Remains
	err error // why it can't be opened; nil if it is open
}

// openSegment opens a segment once.
func (v *survey) openSegment(name filename.Name) (*segment.Remains, error) {
	s, found := v.segments[name]
	if !found {
		s.Remains, s.err = segment.OpenRemains(v.segmentConfig(), name.Kind, name.Number, segment.OpenOptions{
			End: v.endOf(name), KeyID: v.keyIDs[name], Stamp: v.stamps[name],
		})
		if s.err == nil {
			s.err = v.refusePlain(name, s)
		}
		v.segments[name] = s
	}
	return s.Remains, s.err
}

// segmentOf opens the segment of this number.
func (v *survey) segmentOf(num entry.FileNum) (*segment.Remains, error) {
	for _, kind := range []filename.Kind{filename.Value, filename.Journal} {
		if v.hasFile(kind, num) {
			return v.openSegment(filename.New(kind, num))
		}
	}
	return nil, errs.NewCorruption(fmt.Sprintf("segment %d", num), -1, "it is not there")
}

// closeSegments closes what openSegment has opened.
func (v *survey) closeSegments() {
	for _, s := range v.segments {
		if s.err == nil {
			_ = s.Close()
		}
	}
	clear(v.segments)
}
