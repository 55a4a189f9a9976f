// Package repository keeps backups of Brock stores in a directory or an object store. A
// file of a store that never changes is stored once, however many backups have it: the
// hundredth backup of a large store costs what has changed since the one before.
//
//	s := repository.Dir(nil, "/backups/orders")
//	done, err := repository.Backup(ctx, db, s, repository.Options{})
//	...
//	backups, err := repository.List(ctx, s)
//	...
//	restored, err := repository.Restore(ctx, s, "", "/data/orders", repository.RestoreOptions{})
//
// A repository is the objects of a Store. Module github.com/brockdb/brock/repository/blob
// has one for S3, Google Cloud Storage and Azure; who has three methods (Put, Get, List) has
// a repository, and prunes it with a fourth (Delete). Any number of stores and programs may
// use one repository at the same time, without a lock: see docs/format.md, "Repository".
//
// A backup is a store as of one version, with everything committed before Backup was
// called. It is there once its index is, which is written last: what fails or is killed
// before leaves the repository as correct as it was, and what it has stored already is
// used by the next backup.
package repository
