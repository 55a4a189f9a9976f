package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/brockdb/brock"
)

// VerifyOptions are the options of Verify. The zero value verifies everything.
type VerifyOptions struct {
	ID    string // only this backup
	Quick bool   // check only that all objects are there and have their sizes; read only the indexes
	// Progress, unless nil, is called now and then: done of the total bytes are verified.
	Progress func(done, total int64)
}

// Verified is what Verify has found.
type Verified struct {
	Backups int   `json:"backups"`
	Objects int   `json:"objects"` // number of objects that backups have
	Bytes   int64 `json:"bytes"`   // size of these objects
	Unnamed int   `json:"unnamed"` // number of objects that no index names: of backups that failed, are being made, or were removed
}

// Verify checks the indexes, and that every object that they name is there and has its hash.
// It returns nil if each backup can be restored. It calls report, unless nil, for each
// problem; CorruptionError.File is the name of an object. It returns the first problem, for
// which errors.Is reports brock.ErrCorrupt, or the error because of which it could not go on.
//
// Backups may be made and removed meanwhile. To repair a repository, delete the damaged
// objects that hold files. If the store still has such a file, the next Backup stores it
// again.
func Verify(ctx context.Context, s Store, o VerifyOptions, report func(*brock.CorruptionError)) (Verified, error) {
	if ctx == nil || s == nil {
		return Verified{}, fmt.Errorf("%w: nil", brock.ErrInvalid)
	}
	v := &verify{s: s, o: o, tell: report}
	err := v.verifyBackup(ctx)
	if v.first != nil {
		return v.found, v.first
	}
	return v.found, err
}

// verify is a Verify under way.
type verify struct {
	s     Store
	o     VerifyOptions
	tell  func(*brock.CorruptionError)
	first error // the first damage
	found Verified
	users map[string][]string // by object: ids of the backups that name it
	files []*file             // one for each object that is named
}

// reportDamage passes damage on, and remembers the first.
func (v *verify) reportDamage(c *brock.CorruptionError) {
	if v.first == nil {
		v.first = c
	}
	if v.tell != nil {
		v.tell(c)
	}
}

// verifyBackup verifies the indexes, and then the objects.
func (v *verify) verifyBackup(ctx context.Context) error {
	if err := v.collectObjects(ctx); err != nil {
		return err
	}
	// After the indexes: an object that one of them names was put before it, so it is listed.
	there, err := listFiles(ctx, v.s)
	if err != nil {
		return err
	}
	for name := range there {
		if v.users[name] == nil && v.o.ID == "" { // else nobody has looked
			v.found.Unnamed++
		}
	}
	done := progress{total: v.found.Bytes, report: v.o.Progress}
	for _, f := range v.files {
		if err := v.verifyObject(ctx, f, there); err != nil {
			return err
		}
		done.add(f.Size)
	}
	return nil
}

// collectObjects reads the indexes, and collects the objects that they name.
func (v *verify) collectObjects(ctx context.Context) error {
	list := []string{v.o.ID}
	if v.o.ID == "" {
		var err error
		if list, err = listIDs(ctx, v.s); err != nil {
			return err
		}
	}
	v.users = map[string][]string{}
	for x, err := range readIndexes(ctx, v.s, list) {
		var c *brock.CorruptionError
		if errors.As(err, &c) {
			v.reportDamage(c)
			continue
		}
		if err != nil {
			return err
		}
		v.found.Backups++
		for i := range x.Files {
			f := &x.Files[i]
			// Most objects belong to many backups, and each is read once.
			if v.users[f.Object] == nil {
				v.files = append(v.files, f)
				v.found.Objects++
				v.found.Bytes += f.Size
			}
			v.users[f.Object] = append(v.users[f.Object], x.id)
		}
	}
	if v.o.ID != "" && v.found.Backups == 0 && v.first == nil {
		return fmt.Errorf("%w: %q", ErrNoBackup, v.o.ID)
	}
	return nil
}

// verifyObject verifies an object.
func (v *verify) verifyObject(ctx context.Context, f *file, listed map[string]Object) error {
	o, there := listed[f.Object]
	var err error
	switch {
	case there && o.Size != f.Size:
		err = damagedObject(f.Object, nil, "has %d bytes instead of %d", o.Size, f.Size)
	case !there:
		err = damagedObject(f.Object, nil, "is missing")
	case !v.o.Quick:
		err = readObject(ctx, v.s, f, io.Discard)
	}
	var c *brock.CorruptionError
	// Nil, or an error of the store: that is no damage, and ends Verify.
	if !errors.As(err, &c) {
		return err
	}
	// A missing object of a backup that was pruned meanwhile is no damage.
	now, err := listIDs(ctx, v.s)
	users := slices.DeleteFunc(v.users[f.Object], func(id string) bool { return !slices.Contains(now, id) })
	if err != nil || len(users) == 0 {
		return err
	}
	c.Reason += fmt.Sprintf("; %s of %d backups, the newest of them %s, can't be restored without it", f.Name, len(users), users[len(users)-1])
	v.reportDamage(c)
	return nil
}
