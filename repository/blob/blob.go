// Package blob keeps a repository of backups in an object store that gocloud.dev/blob opens:
// S3 and compatible services, Google Cloud Storage, Azure, and others.
//
//	import _ "gocloud.dev/blob/s3blob"
//
//	bucket, err := blob.OpenBucket(ctx, "s3://backups?region=eu-central-1&prefix=orders/")
//	...
//	defer bucket.Close()
//	s := brockblob.New(bucket)
//	done, err := repository.Backup(ctx, db, s, repository.Options{})
//
// The service must show an object as a whole or not at all, and list it at once: Store
// demands it of Put. In some services, interrupted multipart uploads and old versions of
// objects take space: give the bucket a lifecycle rule that removes them after some days.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/brockdb/brock/repository"
)

// New returns the repository in a bucket, which stays open until the caller closes it. For
// a part of a bucket, give it blob.PrefixedBucket.
func New(b *blob.Bucket) repository.Deleter { return bucket{b} }

// bucket is a repository in a bucket.
type bucket struct{ *blob.Bucket }

// Put uploads an object.
func (b bucket) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	// The writer has no call that gives an upload up. The end of its context does that.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Detection would hold the first bytes back, to guess a type that nobody asks for.
	w, err := b.NewWriter(ctx, name, &blob.WriterOptions{ContentType: "application/octet-stream", DisableContentTypeDetection: true})
	if err != nil {
		return explain(err)
	}
	n, err := io.Copy(w, r)
	if err == nil && n != size {
		err = fmt.Errorf("%w: %d bytes instead of %d", io.ErrUnexpectedEOF, n, size)
	}
	if err != nil {
		cancel()      // or Close would make an object of what is there
		_ = w.Close() // says that it was cancelled
		return err
	}
	return explain(w.Close())
}

// Get reads an object.
func (b bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := b.NewReader(ctx, name, nil)
	if err != nil {
		return nil, explain(err)
	}
	// No range: Restore and Verify hash whole objects.
	return r, nil
}

// List lists objects.
func (b bucket) List(ctx context.Context, prefix string, fn func(repository.Object) error) error {
	for it := b.Bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
		o, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return explain(err)
		}
		if err := fn(repository.Object{Name: o.Key, Size: o.Size, Time: o.ModTime}); err != nil {
			return err
		}
	}
}

// Delete deletes an object.
func (b bucket) Delete(ctx context.Context, name string) error {
	// Store wants no error for an object that is absent: another Prune may have deleted it.
	if err := b.Bucket.Delete(ctx, name); gcerrors.Code(err) != gcerrors.NotFound {
		return explain(err)
	}
	return nil
}

// explain makes the library's errors those that Store demands.
func explain(err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
