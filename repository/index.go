package repository

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/layout"
)

// What the names of objects begin with.
const (
	backups = "backups/" // indexes
	objects = "objects/" // files of stores
	unused  = "unused/"  // marks: lists of objects that no index named
)

// Info describes a backup.
type Info struct {
	ID      string    `json:"id"`      // the store's uuid, the time and chance
	Store   string    `json:"store"`   // uuid of the store, as 32 hexadecimal digits
	Version uint64    `json:"version"` // everything up to this one is in it, and nothing newer
	Time    time.Time `json:"time"`    // when it began, by the clock of the machine that made it, or 1 ms after the backup before it
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"` // of all its files; most of them belong to other backups, too
}

// index is the content of a backup's object. docs/copies.md, "The objects of a
// repository", has the format.
type index struct {
	Store   string    `json:"store"`
	Version uint64    `json:"version"`
	Time    time.Time `json:"time"`
	Files   []file    `json:"files"` // SUPER is the last one, the manifest the one before

	id string // of the backup
}

// file describes a file of a backup, with what the next Backup recognises it by.
type file struct {
	Name     string `json:"name"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`             // of its content, in hexadecimal
	Object   string `json:"object"`             // name of the object that has it
	Modified int64  `json:"modified,omitempty"` // Unix nanoseconds; 0: not known
	// SHA-256 of its first and last 4 KiB; "": these don't tell it from other files
	Ends string `json:"ends,omitempty"`

	of layout.File // of the store; of a Backup only
}

// mark lists objects that no index named when it was made.
type mark struct {
	Objects []string `json:"objects"`
}

// The first lines of the two kinds of documents: what it is, the version of its format, and
// the SHA-256 of all that follows the line.
const (
	indexMagic = "brock-backup"
	markMagic  = "brock-unused"

	formatVersion = 1

	// maxDocument bounds the length of a document, so that a forged one takes little memory.
	maxDocument = 256 << 20
)

// encodeDocument returns a document with v.
func encodeDocument(magic string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	sum := sha256.Sum256(body)
	return append(fmt.Appendf(nil, "%s %d %x\n", magic, formatVersion, sum), body...), nil
}

// decodeDocument reads a document of the object name into v.
func decodeDocument(name, magic string, p []byte, v any) error {
	head, body, _ := bytes.Cut(p, []byte("\n"))
	var version int
	var sum string
	// Cut, so that a forged head of some megabytes is not scanned.
	if n, err := fmt.Sscanf(string(head[:min(len(head), 128)]), magic+" %d %s", &version, &sum); n == 0 {
		return damagedObject(name, err, "does not begin with %q", magic)
	}
	// Before the hash: a later release may compute it otherwise.
	if version != formatVersion {
		return fmt.Errorf("%w: %s has version %d of its format", brock.ErrFormat, name, version)
	}
	if got := sha256.Sum256(body); sum != hex.EncodeToString(got[:]) {
		return damagedObject(name, nil, "its SHA-256 is wrong")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return damagedObject(name, err, "is no JSON of the form that it has to have")
	}
	return nil
}

// decodeIndex reads and checks an index.
func decodeIndex(id string, p []byte) (*index, error) {
	x := &index{id: id}
	if err := decodeDocument(backups+id, indexMagic, p, x); err != nil {
		return nil, err
	}
	if reason := x.findFault(); reason != "" {
		return nil, damagedObject(backups+id, nil, "%s", reason)
	}
	return x, nil
}

// findFault returns what is wrong with an index whose hash is right; "" = nothing.
func (x *index) findFault() string {
	if uuid, err := hex.DecodeString(x.Store); err != nil || len(uuid) != 16 {
		return "its store has no uuid"
	}
	if !strings.HasPrefix(x.id, x.Store[:8]+"-") {
		return "it is the index of another backup"
	}
	seen := map[filename.Name]bool{}
	for i := range x.Files {
		f := &x.Files[i]
		name, ok := filename.Parse(f.Name)
		last := len(x.Files) - 1 - i
		switch {
		// A forged index must not write elsewhere, or a file twice.
		case !ok || name.Kind == filename.Lock || seen[name]:
			return fmt.Sprintf("file %q can't be in a backup", f.Name)
		// Restore writes in this order, and relies on it: without SUPER there is no store.
		case (name.Kind == filename.Super) != (last == 0), (name.Kind == filename.Manifest) != (last == 1):
			return fmt.Sprintf("file %q is not in its place", f.Name)
		case f.Size < 0 || hashOf(f.Object) != f.SHA256 || f.SHA256 == "":
			return fmt.Sprintf("object %q can't be that of file %q", f.Object, f.Name)
		}
		seen[name] = true
	}
	if len(x.Files) < 2 {
		return "it has no files"
	}
	return ""
}

// info returns the public description of the index.
func (x *index) info() Info {
	b := Info{ID: x.id, Store: x.Store, Version: x.Version, Time: x.Time, Files: len(x.Files)}
	for i := range x.Files {
		b.Bytes += x.Files[i].Size
	}
	return b
}

var (
	objectName = regexp.MustCompile(`^objects/([0-9a-f]{64})-[0-9a-z]{10}$`)
	idName     = regexp.MustCompile(`^[0-9a-f]{8}-\d{8}T\d{6}\.\d{3}Z-[0-9a-z]{10}$`)
)

// hashOf returns the hash in the name of a file's object; "" if that is not the name of one.
func hashOf(object string) string {
	m := objectName.FindStringSubmatch(object)
	if m == nil {
		return ""
	}
	return m[1]
}

// randomSuffix returns random letters and digits, which make a name unique.
func randomSuffix() string { return strings.ToLower(rand.Text()[:10]) }

// newObject returns a new name for the object of a file with a hash. The name was never used
// before: so an object that Prune is about to delete never has the name of one just put.
func newObject(sha string) string { return objects + sha + "-" + randomSuffix() }

// newID returns the id of a new backup: store, time, chance. Ids of a store sort as the times do.
// Their unit is enough, as two backups of a store never have times within one millisecond.
func newID(store string, t time.Time) string {
	return store[:8] + "-" + t.UTC().Format("20060102T150405.000Z") + "-" + randomSuffix()
}

// backupID returns the id of the backup whose index has that name; ok is false if it is not the
// name of an index.
func backupID(object string) (id string, ok bool) {
	id, ok = strings.CutPrefix(object, backups)
	return id, ok && idName.MatchString(id)
}

// readDocument reads a whole document.
func readDocument(ctx context.Context, s Store, name string) (p []byte, err error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	// One byte more than allowed, to notice a longer one.
	p, err = io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(p) > maxDocument {
		err = damagedObject(name, nil, "has more than %d bytes", maxDocument)
	}
	return p, err
}

// putDocument stores a document.
func putDocument(ctx context.Context, s Store, name, magic string, v any) error {
	p, err := encodeDocument(magic, v)
	if err != nil {
		return err
	}
	// What a reader would refuse must not be written: the backup would be lost.
	if len(p) > maxDocument {
		return fmt.Errorf("%w: %s would have %d bytes", brock.ErrInvalid, name, len(p))
	}
	return s.Put(ctx, name, bytes.NewReader(p), int64(len(p)))
}

// readIndex reads the index of a backup.
func readIndex(ctx context.Context, s Store, id string) (*index, error) {
	// Ids come from users: one with a path in it must not reach a Store.
	if !idName.MatchString(id) {
		return nil, fmt.Errorf("%w: %q", ErrNoBackup, id)
	}
	p, err := readDocument(ctx, s, backups+id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoBackup, id)
	}
	if err != nil {
		return nil, err
	}
	return decodeIndex(id, p)
}
