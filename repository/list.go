package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/brockdb/brock"
)

// List returns the backups of a repository, oldest first. Damaged indexes are left out: then the
// error joins the *brock.CorruptionError, or brock.ErrFormat, of each of them. After any other
// error the list is empty.
func List(ctx context.Context, s Store) ([]Info, error) {
	if ctx == nil || s == nil {
		return nil, fmt.Errorf("%w: nil", brock.ErrInvalid)
	}
	indexes, err := readIndexes(ctx, s)
	list := make([]Info, len(indexes))
	for i, x := range indexes {
		list[i] = x.info()
	}
	return list, err
}

// listIDs lists the backups, in the order of their names.
func listIDs(ctx context.Context, s Store) (list []string, err error) {
	err = s.List(ctx, backups, func(o Object) error {
		if id, ok := backupID(o.Name); ok {
			list = append(list, id)
		}
		return nil
	})
	slices.Sort(list)
	return list, err
}

// readIndexes reads all indexes, oldest first. It goes on after a damaged one, and joins the
// errors of these. An index that was deleted meanwhile is left out.
func readIndexes(ctx context.Context, s Store) (list []*index, err error) {
	all, err := listIDs(ctx, s)
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, id := range all {
		x, err := readIndex(ctx, s, id)
		switch {
		case err == nil:
			list = append(list, x)
		// Pruned between the list and the read.
		case errors.Is(err, ErrNoBackup):
		case errors.Is(err, brock.ErrCorrupt), errors.Is(err, brock.ErrFormat):
			wrong = append(wrong, err)
		default:
			return nil, err
		}
	}
	slices.SortStableFunc(list, older)
	return list, errors.Join(wrong...)
}

// older orders backups by time.
func older(a, b *index) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Version, b.Version), cmp.Compare(a.id, b.id))
}

// findBackup returns the index of a backup; id "" means the newest backup.
func findBackup(ctx context.Context, s Store, id string) (*index, error) {
	if id != "" {
		return readIndex(ctx, s, id)
	}
	all, err := listIDs(ctx, s)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: there is none at all", ErrNoBackup)
	}
	// The newest of several stores would be a matter of chance.
	if slices.ContainsFunc(all, func(id string) bool { return id[:8] != all[0][:8] }) {
		return nil, fmt.Errorf("%w: the repository has backups of several stores: name one", brock.ErrInvalid)
	}
	// Ids of one store sort by time.
	return readIndex(ctx, s, all[len(all)-1])
}

// newestBackup returns the newest backup of a store that can be read; nil if there is none.
func newestBackup(ctx context.Context, s Store, store string) (*index, error) {
	all, err := listIDs(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Backward(all) {
		// An id has a part of the uuid only. The index, which is read below, has all of it.
		if !strings.HasPrefix(id, store[:8]) {
			continue
		}
		x, err := readIndex(ctx, s, id)
		switch {
		case err == nil && x.Store == store:
			return x, nil
		// An older one does as well: it only saves reading.
		case err == nil, errors.Is(err, ErrNoBackup), errors.Is(err, brock.ErrCorrupt), errors.Is(err, brock.ErrFormat):
		default:
			return nil, err
		}
	}
	return nil, nil
}

// stock is the objects that a new index may name.
type stock struct {
	usable map[string]int64    // size of each object, by name
	byHash map[string][]string // names of the objects, by the hash of the file
}

// listObjects lists the objects that a new index may name. Objects that a mark lists are left out,
// as they may be deleted. It lists marks first, and Prune deletes a mark after the objects that it
// lists: so if it doesn't see a mark that was deleted, it doesn't see the objects either.
func listObjects(ctx context.Context, s Store) (*stock, error) {
	marked := map[string]bool{}
	marks, err := listMarks(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, o := range marks {
		m, err := readMark(ctx, s, o.Name)
		if err != nil {
			return nil, err
		}
		for _, object := range m.Objects {
			marked[object] = true
		}
	}
	k := &stock{usable: map[string]int64{}, byHash: map[string][]string{}}
	err = s.List(ctx, objects, func(o Object) error {
		if sha := hashOf(o.Name); sha != "" && !marked[o.Name] {
			k.usable[o.Name] = o.Size
			k.byHash[sha] = append(k.byHash[sha], o.Name)
		}
		return nil
	})
	return k, err
}

// hasFile reports whether a file's object is there, whole, and may be named.
func (k *stock) hasFile(f *file) bool {
	size, ok := k.usable[f.Object]
	return ok && size == f.Size
}
