package repository

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/brockdb/brock"
)

// PruneOptions are the options of Prune. The zero value is good.
type PruneOptions struct {
	Store  string   // remove only backups of the store with this uuid; "" = of each store, by the same rules
	Remove []string // ids of backups to remove, whatever the rules say, also if their index is damaged
	DryRun bool     // remove nothing, only return what would be removed
	// NoBackups says that no backup is being made anywhere until Prune returns. Then Prune
	// frees the space at once. A backup that is made nevertheless may lack files.
	NoBackups bool
}

// Pruned is what Prune has done.
type Pruned struct {
	Removed []Info `json:"removed"` // backups that were removed, or with DryRun would be
	Kept    int    `json:"kept"`    // number of backups that stay
	// Objects that no backup needs: Deleted were deleted. Waiting can be deleted by a Prune
	// that begins in an hour or later; with DryRun, they are those that only removed backups
	// need.
	Deleted      int   `json:"deleted"`
	DeletedBytes int64 `json:"deletedBytes"`
	Waiting      int   `json:"waiting"`
	WaitingBytes int64 `json:"waitingBytes"`
}

const (
	// grace is how long an object stays after it was marked. A backup that did not see the
	// mark names it within much less, see indexTime.
	grace = time.Hour
	// resumeTime is how long an object stays that no index has named: it may belong to a
	// backup that is being made, or made again after it failed.
	resumeTime = 7 * 24 * time.Hour
)

// Prune removes the backups that keep does not keep, and then objects that no index names.
// Backups may be made meanwhile, and other Prunes may run. An object is deleted in two steps:
// one Prune marks it, and another one deletes it an hour later or more, by the clock of s. So
// call Prune regularly.
//
// If the index of a backup can't be read, Prune does nothing, as it does not know which
// objects that backup needs. It returns an error for which errors.Is reports
// brock.ErrCorrupt, or brock.ErrFormat if a newer release wrote the index. Name the backup in
// PruneOptions.Remove to give it up.
func Prune(ctx context.Context, s Deleter, keep Keep, o PruneOptions) (Pruned, error) {
	if ctx == nil || s == nil {
		return Pruned{}, fmt.Errorf("%w: nil", brock.ErrInvalid)
	}
	p := &prune{s: s, o: o, named: map[string]bool{}, known: map[string]bool{}, freed: map[string]bool{}}
	if err := keep.checkRules(); err != nil {
		return Pruned{}, err
	}
	if err := p.choose(ctx, keep); err != nil {
		return Pruned{}, fmt.Errorf("repository: prune: %w", err)
	}
	do := p.pruneObjects
	if o.DryRun {
		do = p.estimateFreed
	}
	if err := do(ctx); err != nil {
		return p.done, fmt.Errorf("repository: prune: %w", err)
	}
	return p.done, nil
}

// prune is a Prune under way.
type prune struct {
	s      Deleter
	o      PruneOptions
	remove []string          // ids of backups
	known  map[string]bool   // ids of backups whose index was read, or is removed
	named  map[string]bool   // objects that stay
	freed  map[string]bool   // objects that removed backups have named
	there  map[string]Object // objects of files, by name; without those that were deleted
	now    time.Time         // by the clock of the store
	done   Pruned
}

// choose reads all indexes and decides which stay.
func (p *prune) choose(ctx context.Context, keep Keep) error {
	byStore := map[string][]*index{}
	all, err := listIDs(ctx, p.s)
	if err != nil {
		return err
	}
	for _, id := range p.o.Remove {
		if !slices.Contains(all, id) {
			return fmt.Errorf("%w: %q", ErrNoBackup, id)
		}
	}
	var list []*index
	for x, err := range readIndexes(ctx, p.s, all) {
		switch {
		case x != nil && slices.Contains(p.o.Remove, x.id):
			p.dropIndex(x)
		// Its objects are not known, so nothing may be deleted.
		case err != nil:
			return err
		default:
			list = append(list, x)
		}
		p.known[x.id] = true
	}
	slices.SortStableFunc(list, compareAge)
	for _, x := range list {
		byStore[x.Store] = append(byStore[x.Store], x)
	}
	if p.o.Store != "" && byStore[p.o.Store] == nil {
		return fmt.Errorf("%w of the store %q", ErrNoBackup, p.o.Store)
	}
	for store, list := range byStore {
		var gone []*index
		if p.o.Store == "" || p.o.Store == store {
			list, gone = keep.choose(list)
		}
		for _, x := range list {
			p.keepObjects(x)
			p.done.Kept++
		}
		for _, x := range gone {
			p.dropIndex(x)
		}
	}
	slices.SortFunc(p.done.Removed, func(a, b Info) int { return a.Time.Compare(b.Time) })
	return nil
}

// keepObjects notes that the objects of an index stay.
func (p *prune) keepObjects(x *index) {
	for i := range x.Files {
		p.named[x.Files[i].Object] = true
	}
}

// dropIndex notes that an index is to be removed.
func (p *prune) dropIndex(x *index) {
	p.remove = append(p.remove, x.id)
	p.done.Removed = append(p.done.Removed, x.info())
	// These objects were named, so they belong to no backup under way: they need not wait for
	// resumeTime.
	for i := range x.Files {
		p.freed[x.Files[i].Object] = true
	}
}

// estimateFreed counts the objects of the removed backups that no other backup needs.
func (p *prune) estimateFreed(ctx context.Context) (err error) {
	p.there, err = listFiles(ctx, p.s)
	for name, o := range p.there {
		// Objects of unfinished backups are not counted: nobody knows yet whether an index will
		// name them.
		if p.freed[name] && !p.named[name] {
			p.done.Waiting++
			p.done.WaitingBytes += o.Size
		}
	}
	return err
}

// pruneObjects removes the indexes, and deletes or marks objects.
func (p *prune) pruneObjects(ctx context.Context) (err error) {
	for _, id := range p.remove {
		// Indexes before objects: a backup that is listed has all its objects.
		if err := p.s.Delete(ctx, backups+id); err != nil {
			return err
		}
	}
	if err := p.setClock(ctx); err != nil {
		return err
	}
	// Do this once the time is known. A mark that is old by then was seen by each Backup whose
	// index is not there yet.
	if err := p.readNewer(ctx); err != nil {
		return err
	}
	if p.there, err = listFiles(ctx, p.s); err != nil {
		return err
	}
	marked, err := p.sweepMarks(ctx)
	if err != nil {
		return err
	}
	return p.markObjects(ctx, marked)
}

// setClock sets the present time: that of an object that it has just put.
func (p *prune) setClock(ctx context.Context) error {
	name := newMark()
	if err := putDocument(ctx, p.s, name, markMagic, &mark{}); err != nil {
		return err
	}
	err := p.s.List(ctx, name, func(o Object) error {
		// The store's clock, as all times of objects are. This machine's may be wrong.
		p.now = o.Time
		return nil
	})
	return errors.Join(err, p.s.Delete(ctx, name))
}

// isOld reports whether an object was put at least age ago. Without times, none was.
func (p *prune) isOld(o Object, age time.Duration) bool {
	// A store that tells no times keeps all: the other answer could delete what a Backup is about
	// to name.
	return p.o.NoBackups || !o.Time.IsZero() && p.now.Sub(o.Time) >= age
}

// readNewer reads the indexes that were made meanwhile.
func (p *prune) readNewer(ctx context.Context) error {
	all, err := listIDs(ctx, p.s)
	// Also damage: its objects aren't known, so nothing may be deleted.
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(id string) bool { return p.known[id] })
	for x, err := range readIndexes(ctx, p.s, all) {
		if err != nil {
			return err
		}
		p.keepObjects(x)
		p.done.Kept++
	}
	return nil
}

// sweepMarks deletes the objects of old marks that no index names, and what interrupted Puts have
// left. It returns the objects of the marks that stay.
func (p *prune) sweepMarks(ctx context.Context) (marked map[string]bool, err error) {
	marked = map[string]bool{}
	marks, err := listMarks(ctx, p.s)
	if err != nil {
		return nil, err
	}
	for _, o := range marks {
		m, err := readMark(ctx, p.s, o.Name)
		// A damaged mark names nothing, and goes once it is old. What it had named is marked again.
		if err != nil && !errors.Is(err, brock.ErrCorrupt) {
			return nil, err
		}
		// A Backup that looked before this mark may still name its objects.
		if !p.isOld(o, grace) {
			for _, object := range m.Objects {
				marked[object] = true
			}
			continue
		}
		for _, object := range m.Objects {
			if err := p.deleteObject(ctx, object); err != nil {
				return nil, err
			}
		}
		// The mark goes last: a backup that doesn't see it doesn't see its objects either.
		if err := p.s.Delete(ctx, o.Name); err != nil {
			return nil, err
		}
	}
	return marked, p.deleteParts(ctx)
}

// deleteObject deletes a file's object, unless an index has named it since it was marked.
func (p *prune) deleteObject(ctx context.Context, object string) error {
	o, there := p.there[object]
	// A forged mark deletes nothing but objects of files.
	if !there || p.named[object] {
		return nil
	}
	if err := p.s.Delete(ctx, object); err != nil {
		return err
	}
	delete(p.there, object)
	p.done.Deleted++
	p.done.DeletedBytes += o.Size
	return nil
}

// deleteParts deletes what interrupted Puts have left, after resumeTime.
func (p *prune) deleteParts(ctx context.Context) error {
	var names []string
	err := p.s.List(ctx, "", func(o Object) error {
		if strings.HasSuffix(o.Name, partSuffix) && p.isOld(o, resumeTime) {
			// Deleted after the list: some stores don't like changes while they list.
			names = append(names, o.Name)
		}
		return nil
	})
	for i := 0; err == nil && i < len(names); i++ {
		err = p.s.Delete(ctx, names[i])
	}
	return err
}

// markObjects puts a mark for the objects that are not needed and in no mark yet.
func (p *prune) markObjects(ctx context.Context, marked map[string]bool) error {
	var m mark
	for name, o := range p.there {
		switch {
		case p.named[name]:
			continue
		// Perhaps of a Backup that is not finished.
		case !marked[name] && !p.freed[name] && !p.isOld(o, resumeTime):
			continue
		case !marked[name]:
			m.Objects = append(m.Objects, name)
		}
		p.done.Waiting++
		p.done.WaitingBytes += o.Size
	}
	if len(m.Objects) == 0 {
		return nil
	}
	slices.Sort(m.Objects)
	if !p.o.NoBackups {
		return putDocument(ctx, p.s, newMark(), markMagic, &m)
	}
	for _, object := range m.Objects {
		if err := p.deleteObject(ctx, object); err != nil {
			return err
		}
	}
	p.done.Waiting, p.done.WaitingBytes = 0, 0
	return nil
}

// markName matches the names of marks.
var markName = regexp.MustCompile(`^unused/[0-9a-z]{10}$`)

// newMark returns a name for a mark that was never used.
func newMark() string { return unused + randomSuffix() }

// listMarks lists the marks.
func listMarks(ctx context.Context, s Store) (list []Object, err error) {
	err = s.List(ctx, unused, func(o Object) error {
		if markName.MatchString(o.Name) {
			list = append(list, o)
		}
		return nil
	})
	return list, err
}

// readMark reads a mark. One that was deleted meanwhile is empty.
func readMark(ctx context.Context, s Store, name string) (m mark, err error) {
	p, err := readDocument(ctx, s, name)
	// It was deleted since the list, after its objects: so it says nothing any more.
	if errors.Is(err, fs.ErrNotExist) {
		return mark{}, nil
	}
	if err == nil {
		err = decodeDocument(name, markMagic, p, &m)
	}
	if err != nil {
		return mark{}, err
	}
	return m, nil
}
