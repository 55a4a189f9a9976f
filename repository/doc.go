// Package repository keeps backups of Brock stores in a directory or an object store. A
// file of a store that does not change is stored once, however many backups have it. So each
// backup but the first costs what has changed since the one before.
//
//	s := repository.Dir(nil, "/backups/orders")
//	done, err := repository.Backup(ctx, db, s, repository.Options{})
//	...
//	backups, err := repository.List(ctx, s)
//	...
//	restored, err := repository.Restore(ctx, s, "", "/data/orders", repository.RestoreOptions{})
//
// A repository is the objects of a Store. Dir makes one of a directory, and module
// github.com/brockdb/brock/repository/blob one of S3, Google Cloud Storage or Azure. For
// anything else, implement Put, Get and List, and Delete for Prune. Any number of stores and
// programs may use one repository at the same time, without a lock: see docs/copies.md,
// "The objects of a repository".
//
// A backup is a store as of one version, with everything that was committed before Backup was
// called. Its index is written last. A Backup that fails, or is killed before that, changes
// no other backup, and the next Backup uses the files that it has stored.
package repository
