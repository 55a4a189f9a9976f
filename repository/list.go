package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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
	all, err := listIDs(ctx, s)
	if err != nil {
		return nil, err
	}
	var indexes []*index
	var wrong []error
	for x, err := range readIndexes(ctx, s, all) {
		switch {
		case x == nil:
			return nil, err
		case err != nil:
			wrong = append(wrong, err)
		default:
			indexes = append(indexes, x)
		}
	}
	slices.SortStableFunc(indexes, compareAge)
	list := make([]Info, len(indexes))
	for i, x := range indexes {
		list[i] = x.info()
	}
	return list, errors.Join(wrong...)
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

// readIndexes reads the indexes of some backups. With one that is damaged, or of a later release,
// comes the error, and it has only the id. After any other error, with which comes nil, it ends. An
// index that was deleted meanwhile is left out.
func readIndexes(ctx context.Context, s Store, ids []string) iter.Seq2[*index, error] {
	return func(yield func(*index, error) bool) {
		for _, id := range ids {
			x, err := readIndex(ctx, s, id)
			switch {
			// Pruned between the list and the read.
			case errors.Is(err, ErrNoBackup):
				continue
			case errors.Is(err, brock.ErrCorrupt), errors.Is(err, brock.ErrFormat):
				x = &index{id: id}
			}
			if !yield(x, err) || x == nil {
				return
			}
		}
	}
}

// compareAge orders backups by time.
func compareAge(a, b *index) int {
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
	all = slices.DeleteFunc(all, func(id string) bool { return !strings.HasPrefix(id, store[:8]) })
	slices.Reverse(all)
	for x, err := range readIndexes(ctx, s, all) {
		// In the place of a damaged one, an older one does as well: it only saves reading.
		if x == nil || x.Store == store {
			return x, err
		}
	}
	return nil, nil
}

// stock is the objects that a new index may name.
type stock struct {
	usable map[string]Object   // by name
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
	k := &stock{byHash: map[string][]string{}}
	if k.usable, err = listFiles(ctx, s); err != nil {
		return nil, err
	}
	for name := range k.usable {
		if marked[name] {
			delete(k.usable, name)
			continue
		}
		k.byHash[hashOf(name)] = append(k.byHash[hashOf(name)], name)
	}
	return k, nil
}

// listFiles lists the objects of files, by name.
func listFiles(ctx context.Context, s Store) (map[string]Object, error) {
	there := map[string]Object{}
	return there, s.List(ctx, objects, func(o Object) error {
		if hashOf(o.Name) != "" {
			there[o.Name] = o
		}
		return nil
	})
}

// hasFile reports whether a file's object is there, whole, and may be named.
func (k *stock) hasFile(f *file) bool {
	o, ok := k.usable[f.Object]
	return ok && o.Size == f.Size
}
