package objects

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"io"
	"sync"

	"github.com/brockdb/brock"
)

// Object is the content of one object, as its transaction sees it. It is an io.Reader, an
// io.ReaderAt, an io.Seeker and an io.WriterTo. Parts are read when they are needed, and each one
// is verified; if one can't be read, the others can.
//
// Read, Seek and WriteTo are for one goroutine at a time, as is all use of an update transaction.
// In a read-only transaction, ReadAt may be called by any number of goroutines, also of several
// objects. After the end of the transaction reads return ErrTxnDone, from the next part on.
//
// Reads return a *DamageError for a part that is damaged or missing, ErrStale if its own
// transaction has overwritten or deleted the object, and else the errors of Item.Value.
type Object struct {
	space *space
	heads *brock.Txn // addresses the keyspace of the heads
	parts *brock.Txn // addresses the keyspace of the parts
	key   []byte
	head  *head
	off   int64     // of the next Read
	spare sync.Pool // memory for parts, of reads beside the one that has mu

	mu     sync.Mutex // guards:
	cached []byte     // the part that was read last, so that small reads don't read it again
	number int64      // of that part; -1 = none
}

func (s *space) openObject(txn *brock.Txn, key []byte) (*Object, error) {
	h, err := s.findHead(txn, key)
	if err != nil {
		return nil, err
	}
	return newObject(s, txn, key, h), nil
}

func newObject(s *space, txn *brock.Txn, key []byte, h *head) *Object {
	return &Object{space: s, heads: txn.In(s.heads), parts: txn.In(s.parts), key: bytes.Clone(key), head: h, number: -1}
}

// Info returns what is known of the object.
func (o *Object) Info() Info { return o.head.makeInfo(o.key) }

// Size returns the length of the content in bytes.
func (o *Object) Size() int64 { return o.head.size }

// Read reads up to len(p) bytes, but not beyond the end of a part.
func (o *Object) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if o.off >= o.head.size {
		return 0, io.EOF
	}
	n, err := o.readPiece(p, o.off)
	o.off += int64(n)
	return n, err
}

// ReadAt reads len(p) bytes from offset off, fewer only with an error: io.EOF if the content ends
// before, ErrInvalid for a negative offset, or one of those of an Object.
func (o *Object) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errOffset
	}
	for n < len(p) && off < o.head.size {
		got, err := o.readPiece(p[n:], off)
		if err != nil {
			return n, err
		}
		n += got
		off += int64(got)
	}
	if n < len(p) || len(p) == 0 && off >= o.head.size {
		return n, io.EOF
	}
	return n, nil
}

// Seek sets the offset of the next Read and WriteTo. It may be beyond the end. Before the start, or
// with an unknown whence, it returns ErrInvalid and changes nothing.
func (o *Object) Seek(offset int64, whence int) (int64, error) {
	base := int64(0)
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		base = o.off
	case io.SeekEnd:
		base = o.head.size
	default:
		return 0, errWhence
	}
	// base is not negative, so only a positive offset overflows, and then the sum is negative.
	if base+offset < 0 {
		return 0, errOffset
	}
	o.off = base + offset
	return o.off, nil
}

// WriteTo writes everything from the offset of the next Read to w. The parts that follow are read
// from the disk ahead.
func (o *Object) WriteTo(w io.Writer) (written int64, err error) {
	if o.off >= o.head.size {
		return 0, nil
	}
	first := o.off / o.head.partSize
	it := o.parts.NewIterator(brock.IteratorOptions{Lower: o.head.id.partKey(first), Upper: o.head.id.pastParts()})
	defer it.Close()
	it.Rewind()
	var buf []byte
	for n := first; n < o.head.parts(); n++ {
		// Missing parts must not go unseen, and those behind damage are not asked for.
		if buf, err = o.takePart(it, n, buf); err != nil {
			return written, err
		}
		piece := buf[o.off-n*o.head.partSize:]
		wrote, err := w.Write(piece)
		if wrote < 0 || wrote > len(piece) {
			return written, errWrites
		}
		written += int64(wrote)
		o.off += int64(wrote)
		if err == nil && wrote < len(piece) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return written, err
		}
		it.Next()
	}
	return written, nil
}

// readPiece reads from offset off, which is within the content, but not beyond the end of a part.
func (o *Object) readPiece(p []byte, off int64) (int, error) {
	n := off / o.head.partSize
	begin, size := off-n*o.head.partSize, o.head.partLen(n)
	if begin == 0 && int64(len(p)) >= size {
		part, err := o.readPart(n, p[:0:size])
		if err != nil {
			return 0, err
		}
		return copy(p, part), nil // mostly onto itself
	}
	// If another goroutine has the part that was read last, don't wait for its read.
	if !o.mu.TryLock() {
		return o.readBeside(p, n, begin)
	}
	defer o.mu.Unlock()
	if o.number != n {
		o.number = -1 // its memory is written to, whatever comes of it
		part, err := o.readPart(n, o.cached)
		if err != nil {
			return 0, err
		}
		o.cached, o.number = part, n
	}
	return copy(p, o.cached[begin:]), nil
}

// readBeside reads from an offset in part n, while another goroutine has the part that was read
// last.
func (o *Object) readBeside(p []byte, n, begin int64) (int, error) {
	buf, ok := o.spare.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	defer o.spare.Put(buf)
	part, err := o.readPart(n, *buf)
	if err != nil {
		return 0, err
	}
	*buf = part
	return copy(p, part[begin:]), nil
}

// readPart reads part n into dst, or into new memory if that is too small.
func (o *Object) readPart(n int64, dst []byte) ([]byte, error) {
	key := o.head.id.partKey(n)
	// Not Txn.Get: several goroutines may have iterators of one transaction.
	it := o.parts.NewIterator(brock.IteratorOptions{Lower: key, Upper: append(key, 0), KeysOnly: true, Prefetch: -1})
	defer it.Close()
	it.Rewind()
	return o.takePart(it, n, dst)
}

// takePart reads part n, which it should be at, into dst or into new memory.
func (o *Object) takePart(it *brock.Iterator, n int64, dst []byte) ([]byte, error) {
	if !it.Valid() && it.Err() != nil {
		return nil, explainDamage(it.Err(), o.key, n, "can't be found")
	}
	if _, number, ok := parsePartKey(it.Item().Key()); !ok || number != n {
		return nil, o.explainMissing(n)
	}
	part, err := it.Item().ValueCopy(dst)
	if err != nil {
		return nil, explainDamage(err, o.key, n, "can't be read")
	}
	if int64(len(part)) != o.head.partLen(n) {
		return nil, &DamageError{Key: bytes.Clone(o.key), Part: n, Reason: "has a wrong length"}
	}
	return part, nil
}

// explainMissing returns why part n is not there: its transaction has removed the object, or the
// store is damaged.
func (o *Object) explainMissing(n int64) error {
	it := o.heads.NewIterator(brock.IteratorOptions{Lower: o.key, Upper: append(bytes.Clone(o.key), 0)})
	defer it.Close()
	it.Rewind()
	if err := it.Err(); err != nil {
		return explainDamage(err, o.key, n, "is missing")
	}
	if !it.Valid() {
		return ErrStale
	}
	if h, err := o.space.readHead(it.Item(), o.key); err == nil && h.id != o.head.id {
		return ErrStale
	}
	return &DamageError{Key: bytes.Clone(o.key), Part: n, Reason: "is missing"}
}

// Checked returns a reader of the whole content. Where that ends, it returns a *DamageError instead
// of io.EOF if the digest is wrong. It is independent of the offset of Read, and for one goroutine.
func (o *Object) Checked() io.Reader { return &checkedReader{object: o, sum: sha256.New()} }

type checkedReader struct {
	object *Object
	off    int64
	sum    hash.Hash // of what was read so far
}

// Read reads up to len(p) bytes.
func (r *checkedReader) Read(p []byte) (int, error) {
	o := r.object
	if len(p) == 0 {
		return 0, nil
	}
	if r.off >= o.head.size {
		if Digest(r.sum.Sum(nil)) != o.head.digest {
			return 0, &DamageError{Key: bytes.Clone(o.key), Part: -1, Reason: "has another digest than its head says"}
		}
		return 0, io.EOF
	}
	n, err := o.readPiece(p, r.off)
	r.sum.Write(p[:n])
	r.off += int64(n)
	return n, err
}
