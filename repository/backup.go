package repository

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/brockdb/brock"
)

// Options of Backup. The zero value is good.
type Options struct {
	// Scratch is a directory for the checkpoint that is backed up. It must be empty or
	// absent; "" = the store's directory with ".backup-scratch" added to its name. In the
	// file system of the store the checkpoint takes no disk space, elsewhere as much as the
	// whole store. Backup removes the directory at the end; after a crash the next Backup
	// does. Only one Backup at a time may use it.
	Scratch string
	// Progress, unless nil, is called now and then: done bytes of the total bytes of the
	// backup are in the repository.
	Progress func(done, total int64)
}

// Done is what Backup has done.
type Done struct {
	Info
	PutFiles  int   `json:"putFiles"`  // number of files that were not in the repository, and were put there
	PutBytes  int64 `json:"putBytes"`  // size of these files
	ReadBytes int64 `json:"readBytes"` // size of the files that were read; the newest backup has the others
}

// indexTime bounds the time from the last look at the marks of Prune until the index is written.
// It must be well below grace.
const indexTime = 10 * time.Minute

// mostRounds is how often Backup stores files: all, and then those whose objects Prune may delete.
const mostRounds = 6

// Backup stores the files of db that the repository does not have, and then the index. The
// backup has everything that was committed before the call, and is durable when Backup
// returns nil. After an error there is no backup. Others go on reading and writing db. Files
// that db replaces meanwhile stay on the disk until Backup returns.
//
// Backup verifies every checksum of a file before it stores the file, and stores the same
// bytes. A damaged file is a *brock.CorruptionError. A file is not read if the newest
// backup of the store has one of the same name, size, time, and hash of its first and last
// 4 KiB, see docs/copies.md. Backup returns brock.ErrLocked while another one uses
// Options.Scratch, and the errors of DB.Checkpoint and of s.
//
// db may be a store that this process only reads: with Mode Follow, a process beside the writer
// makes the backups.
func Backup(ctx context.Context, db *brock.DB, s Store, o Options) (Done, error) {
	if ctx == nil || db == nil || s == nil {
		return Done{}, fmt.Errorf("%w: nil", brock.ErrInvalid)
	}
	b := &run{to: s, began: time.Now(), stored: progress{report: o.Progress}}
	// What removeSource could not remove of a complete backup, the next Backup removes.
	if err := b.backUp(ctx, db, o.Scratch); err != nil && b.done.ID == "" {
		return Done{}, fmt.Errorf("repository: %w", err)
	}
	return b.done, nil
}

// run is a Backup under way.
type run struct {
	to     Store
	began  time.Time
	source *source
	stock  *stock    // objects that the index may name
	looked time.Time // when they were listed
	index  index
	before map[string]*file // of the newest backup of the store, by name
	stored progress         // what is in the repository
	done   Done
}

// backUp stores the files, and then the index.
func (b *run) backUp(ctx context.Context, db *brock.DB, scratch string) (err error) {
	// Before the checkpoint: an unreachable repository costs no work on the store.
	if b.stock, err = listObjects(ctx, b.to); err != nil {
		return err
	}
	if b.source, err = openSource(ctx, db, scratch); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.source.removeSource()) }()
	b.index = index{Store: hex.EncodeToString(b.source.copy.UUID[:]), Version: uint64(b.source.copy.Layout.LastVersion()), Time: b.began.UTC()}
	last, err := newestBackup(ctx, b.to, b.index.Store)
	if err != nil {
		return err
	}
	b.before = map[string]*file{}
	if last != nil {
		// The newest backup is the last one that was made, also if a clock has jumped back.
		if next := last.Time.Add(time.Millisecond); b.index.Time.Before(next) {
			b.index.Time = next
		}
		for i := range last.Files {
			b.before[last.Files[i].Name] = &last.Files[i]
		}
	}
	if err := b.listFiles(); err != nil {
		return err
	}
	return b.storeFiles(ctx)
}

// listFiles lists the files of the backup.
func (b *run) listFiles() error {
	for _, of := range b.source.copy.All() {
		info, err := b.source.fs.Stat(b.source.filePath(of.Name.String()))
		if err != nil {
			return err
		}
		f := file{Name: of.Name.String(), Size: info.Size, of: of}
		if !info.ModTime.IsZero() {
			// 0 if the file system keeps no times: then the file is read.
			f.Modified = info.ModTime.UnixNano()
		}
		b.index.Files = append(b.index.Files, f)
		b.stored.total += f.Size
	}
	return nil
}

// storeFiles stores the files, and again those whose objects Prune has marked meanwhile. Once none
// is marked, it writes the index, which makes the backup.
func (b *run) storeFiles(ctx context.Context) error {
	for range mostRounds {
		whole := true
		for i := range b.index.Files {
			f := &b.index.Files[i]
			if b.stock.hasFile(f) {
				continue
			}
			first := f.SHA256 == ""
			whole = false
			if err := b.storeFile(ctx, f); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
			if first {
				b.stored.add(f.Size)
			}
		}
		// All objects were there and unmarked after looked. A mark that comes later is not acted
		// upon within the hour (grace), and by then the index names them.
		if whole {
			return b.publishIndex(ctx)
		}
		var err error
		// The time of the look, not of its end: a mark may come right after it.
		b.looked = time.Now()
		if b.stock, err = listObjects(ctx, b.to); err != nil {
			return err
		}
	}
	return errors.New("objects are deleted as fast as they are stored: is there another program that prunes?")
}

// storeFile stores a file, unless the repository has it.
func (b *run) storeFile(ctx context.Context, f *file) error {
	// The hashes of a file that is done would only take memory.
	defer b.source.steady.Forget(b.source.filePath(f.Name))
	before := f.SHA256
	if before == "" {
		if err := b.source.setEnds(f); err != nil {
			return err
		}
		if old := b.before[f.Name]; old != nil && old.sameAs(f) && b.stock.hasFile(old) {
			f.SHA256, f.Object = old.SHA256, old.Object
			// The newest backup has the same file, and its object may be named.
			return nil
		}
	}
	if err := b.source.setHash(ctx, f); err != nil {
		return err
	}
	// The hash was taken from the newest backup without a read. The file now shows that it was
	// another one.
	if before != "" && f.SHA256 != before {
		return damagedObject(f.Name, nil, "is not what it was in the newest backup, with the same size, time and ends")
	}
	b.done.ReadBytes += f.Size
	// An object of this hash was verified when it was stored.
	// The last one stays in f.Object if none fits; putFile gives it a new name then.
	for _, f.Object = range b.stock.byHash[f.SHA256] {
		if b.stock.hasFile(f) {
			return nil
		}
	}
	return b.putFile(ctx, f)
}

// sameAs reports whether f is the same file as old, which is of the newest backup: then f need not
// be read.
func (old *file) sameAs(f *file) bool {
	return f.Modified != 0 && f.Modified == old.Modified && f.Ends != "" && f.Ends == old.Ends && f.Size == old.Size
}

// putFile verifies a file whose hash is known and puts it into an object of its own.
func (b *run) putFile(ctx context.Context, f *file) (err error) {
	// Before Put: a damaged file must not become part of a backup. steady makes sure that Put reads
	// the same bytes.
	if err := b.source.copy.Verify(ctx, f.of); err != nil {
		return err
	}
	r, err := b.source.openFile(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	// A new name each time: Prune may be deleting an object of the same hash just now.
	f.Object = newObject(f.SHA256)
	if err := b.to.Put(ctx, f.Object, io.NewSectionReader(r, 0, f.Size), f.Size); err != nil {
		return err
	}
	b.stock.usable[f.Object] = Object{Name: f.Object, Size: f.Size}
	b.done.PutFiles++
	b.done.PutBytes += f.Size
	return nil
}

// publishIndex writes the index.
func (b *run) publishIndex(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, indexTime, errors.New("the index took too long"))
	defer cancel()
	// From this Put on the backup exists.
	id := newID(b.index.Store, b.index.Time)
	if err := putDocument(ctx, b.to, backups+id, indexMagic, &b.index); err != nil {
		return err
	}
	// Round removes the monotonic reading: that clock may stop while a machine sleeps.
	if took := time.Now().Round(0).Sub(b.looked.Round(0)); took > 2*indexTime || took < -indexTime {
		if d, ok := b.to.(Deleter); ok {
			// Prune may have deleted objects before the index named them.
			_ = d.Delete(ctx, backups+id)
		}
		return fmt.Errorf("the clock went on by %v while the index was written: the backup %s may lack objects, verify or prune it", took, id)
	}
	b.index.id = id
	b.done.Info = b.index.info()
	return nil
}
