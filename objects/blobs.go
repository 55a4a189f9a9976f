package objects

import (
	"context"
	"io"
	"iter"
	"math"

	"github.com/brockdb/brock"
)

// Blobs has objects under the digest of their content: each content once, with a count of
// references. Put, Upload and Retain add a reference, and Release takes one away; with the last one
// the content goes, in the same transaction. There is nothing to collect. Blobs may be used by any
// number of goroutines; what is said of a transaction holds for the calls that are given one.
type Blobs struct{ space }

// OpenBlobs is Open for Blobs. A name has either objects or blobs.
func OpenBlobs(db *brock.DB, name string, o Options) (*Blobs, error) {
	b := new(Blobs)
	if err := b.openSpace(db, name, blobHead, &o); err != nil {
		return nil, err
	}
	return b, nil
}

// Put stores all that r has, within txn, or adds a reference to what has the same content. Then
// nothing of it is stored a second time, and content type, meta and time stay as they are. What has
// more than one part is first written to txn, whose files take the space until it ends; Retain it
// if you know its digest. Errors, and what they leave behind, are those of Store.Put.
func (b *Blobs) Put(txn *brock.Txn, r io.Reader, o PutOptions) (Info, error) {
	h, err := b.putContent(txn, r, &o, b.linker())
	if err != nil {
		return Info{}, err
	}
	return h.makeInfo(h.digest[:]), nil
}

// Upload is Put in transactions of its own, as Store.Upload says. What has more than one part is
// written to the store, and removed again if it is there already.
func (b *Blobs) Upload(ctx context.Context, r io.Reader, o PutOptions, with func(txn *brock.Txn, info Info) error) (Info, error) {
	return b.uploadContent(ctx, r, &o, nil, b.linker(), with)
}

// linker returns what makes a content a blob, or a reference to the one that there is.
func (b *Blobs) linker() linker {
	return linker{have: func(txn *brock.Txn, d Digest) (bool, error) {
		_, err := b.findHead(txn, d[:])
		return err == nil, ignoreAbsent(err)
	}, link: func(txn *brock.Txn, h *head) (*head, error) {
		there, err := b.retainHead(txn, h.digest)
		switch {
		case err == nil:
			return there, b.deleteParts(txn, h)
		case ignoreAbsent(err) != nil:
			return nil, err
		}
		h.refs = 1
		return h, txn.In(b.heads).Set(h.digest[:], h.encodeHead())
	}}
}

// retainHead adds a reference to a blob, and returns its head.
func (b *Blobs) retainHead(txn *brock.Txn, d Digest) (*head, error) {
	h, err := b.findHead(txn, d[:])
	if err != nil {
		return nil, err
	}
	if h.refs == math.MaxUint64 {
		return nil, errReferences
	}
	h.refs++
	return h, txn.In(b.heads).Set(d[:], h.encodeHead())
}

// Retain adds a reference to a blob within txn. It returns ErrKeyNotFound if there is none of this
// digest: then Put it. Other errors are those of Open and of Txn.Set.
func (b *Blobs) Retain(txn *brock.Txn, d Digest) (Info, error) {
	if err := b.checkWrites(txn); err != nil {
		return Info{}, err
	}
	h, err := b.retainHead(txn, d)
	if err != nil {
		return Info{}, err
	}
	return h.makeInfo(d[:]), nil
}

// Release takes a reference to a blob away within txn, and returns how many are left. With the last
// one the blob is removed. It returns ErrKeyNotFound if there is no blob of this digest, and else
// the errors of Retain.
func (b *Blobs) Release(txn *brock.Txn, d Digest) (left uint64, err error) {
	if err := b.checkWrites(txn); err != nil {
		return 0, err
	}
	h, err := b.findHead(txn, d[:])
	if err != nil {
		return 0, err
	}
	if h.refs--; h.refs > 0 {
		return h.refs, txn.In(b.heads).Set(d[:], h.encodeHead())
	}
	return 0, b.deleteHead(txn, d[:], h)
}

// Open is Store.Open for a blob.
func (b *Blobs) Open(txn *brock.Txn, d Digest) (*Object, error) { return b.openObject(txn, d[:]) }

// Stat returns what is known of a blob. Its errors are those of Open.
func (b *Blobs) Stat(txn *brock.Txn, d Digest) (Info, error) { return b.statHead(txn, d[:]) }

// List yields the blobs in the order of their digests. Errors are as for Store.List.
func (b *Blobs) List(txn *brock.Txn) iter.Seq2[Info, error] { return b.listHeads(txn, nil) }

// Verify is Store.Verify for blobs.
func (b *Blobs) Verify(ctx context.Context, report func(*DamageError)) error {
	return b.verifyAll(ctx, report)
}

// Sweep is Store.Sweep for blobs.
func (b *Blobs) Sweep(ctx context.Context) (removed int, err error) { return b.sweepAll(ctx) }
