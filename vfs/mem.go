package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Mem is a file system in memory that knows what a crash would leave of it. For
// each file and directory it keeps the current state, the durable state, and the
// changes in between. CrashClone returns a copy as after a crash.
//
// An empty Mem takes little memory. All names lie below one root, which always exists; "",
// "." and "/" are its names. Make other directories by MkdirAll; one is durable once the
// directory above it was synced. A Mem keeps no times.
//
// A file can be mapped if the mapping ends within it and it is not open for writing. Later
// writes change the mapping: a program that writes what another goroutine reads there has a data
// race. What a file loses at its end is zeros in the mapping.
//
// Rename also renames directories. SetCapacity bounds the size, as that of a disk.
type Mem struct {
	*memDisk
	held   map[string]*memDir // directories held open, by clean name; nil = names are paths
	closed bool               // Close was called; guarded by mu
}

// memDisk is what a Mem and its Dirs share.
type memDisk struct {
	mu       sync.RWMutex
	root     *memDir
	seq      uint64 // number of the last change; a crash chooses among them
	capacity int64  // in bytes; 0 = no bound
}

// NewMem returns an empty Mem.
func NewMem() *Mem {
	return &Mem{memDisk: &memDisk{root: newMemDir()}}
}

// memDir is a directory. Names get durable when it is synced.
type memDir struct {
	entries map[string]memNode // what List and Open see
	durable map[string]memNode // what each crash leaves at least
	pending []nameChange       // changes since the last sync, oldest first
	locks   int                // how many hold the lock and share it; <0: one who does not
}

// newMemDir returns an empty directory.
func newMemDir() *memDir {
	return &memDir{entries: map[string]memNode{}, durable: map[string]memNode{}}
}

// memNode is what a name means: a file, a directory, or, if zero, nothing.
type memNode struct {
	file *memFile
	dir  *memDir
}

// nameChange is what a name means from the change seq on.
type nameChange struct {
	seq  uint64
	name string
	node memNode
}

// putNode changes what a name means.
func (d *memDir) putNode(seq uint64, name string, n memNode) {
	setName(d.entries, name, n)
	d.pending = append(d.pending, nameChange{seq, name, n})
}

// setName changes what a name means in a map; the zero node removes it.
func setName(names map[string]memNode, name string, n memNode) {
	if n == (memNode{}) {
		delete(names, name)
	} else {
		names[name] = n
	}
}

// cleanName returns the one form of a name that the maps of a Mem use.
func cleanName(name string) string { return path.Clean("/" + filepath.ToSlash(name)) }

// findNode returns what a clean name means.
func (m *Mem) findNode(name string) memNode {
	if m.held != nil {
		return m.findHeld(name)
	}
	n := memNode{dir: m.root}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" {
			continue
		}
		if n.dir == nil {
			return memNode{}
		}
		n = n.dir.entries[part]
	}
	return n
}

// findHeld is findNode for a Mem that holds directories: a name is one of them, or right in one.
func (m *Mem) findHeld(name string) memNode {
	if m.closed {
		return memNode{}
	}
	if d := m.held[name]; d != nil {
		return memNode{dir: d}
	}
	if d := m.held[path.Dir(name)]; d != nil {
		return d.entries[path.Base(name)]
	}
	return memNode{}
}

// absentError returns the error for a name that find doesn't know.
func (m *Mem) absentError() error {
	if m.closed {
		return fs.ErrClosed
	}
	return fs.ErrNotExist
}

// OpenDirs implements FS.
func (m *Mem) OpenDirs(names ...string) (Dirs, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	held := &Mem{memDisk: m.memDisk, held: map[string]*memDir{}}
	// So that files can be linked between all of them.
	maps.Copy(held.held, m.held)
	// New names are looked up by path, also if m itself holds directories.
	whole := &Mem{memDisk: m.memDisk}
	for _, name := range names {
		if held.held[cleanName(name)] != nil {
			continue
		}
		d := whole.findNode(cleanName(name)).dir
		if d == nil {
			return nil, pathError("open", name, fs.ErrNotExist)
		}
		held.held[cleanName(name)] = d
	}
	return memDirs{held}, nil
}

// memDirs is a Mem that holds directories open.
type memDirs struct{ *Mem }

// Close implements Dirs.
func (d memDirs) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Only of these directories: open files stay usable.
	d.closed = true
	return nil
}

// dirOf returns the directory that a name is or would be in, and its base name.
func (m *Mem) dirOf(op, name string) (*memDir, string, error) {
	dir, base := path.Split(cleanName(name))
	if base == "" {
		return nil, "", pathError(op, name, fs.ErrInvalid)
	}
	d := m.findNode(path.Clean(dir)).dir
	if d == nil {
		return nil, "", pathError(op, name, m.absentError())
	}
	return d, base, nil
}

// newName is dirOf a name that must not exist yet.
func (m *Mem) newName(op, name string) (*memDir, string, error) {
	d, base, err := m.dirOf(op, name)
	if err != nil {
		return nil, "", err
	}
	if _, exists := d.entries[base]; exists {
		return nil, "", pathError(op, name, fs.ErrExist)
	}
	return d, base, nil
}

// fileOf returns the file of a name.
func (m *Mem) fileOf(op, name string) (*memFile, error) {
	f := m.findNode(cleanName(name)).file
	if f == nil {
		return nil, pathError(op, name, m.absentError())
	}
	return f, nil
}

// nextSeq numbers the next change; the mutex is held.
func (m *Mem) nextSeq() uint64 { m.seq++; return m.seq }

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.newName("create", name)
	if err != nil {
		return nil, err
	}
	f := &memFile{}
	// The name is a change of the directory: a crash before SyncDir may lose it, and with it all
	// that was synced of the file.
	d.putNode(m.nextSeq(), base, memNode{file: f})
	return m.handle(name, f, true), nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.openNode(name, false) }

// OpenReadWrite implements FS.
func (m *Mem) OpenReadWrite(name string) (File, error) { return m.openNode(name, true) }

// openNode opens a file that exists.
func (m *Mem) openNode(name string, write bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch n := m.findNode(cleanName(name)); {
	case n.file != nil:
		return m.handle(name, n.file, write), nil
	case n.dir != nil:
		return nil, pathError("open", name, fs.ErrInvalid)
	}
	return nil, pathError("open", name, m.absentError())
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.dirOf("remove", name)
	if err != nil {
		return err
	}
	n, exists := d.entries[base]
	if !exists {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if n.dir != nil && len(n.dir.entries) > 0 {
		return pathError("remove", name, errors.New("directory not empty"))
	}
	// Open handles keep the file.
	d.putNode(m.nextSeq(), base, memNode{})
	return nil
}

// Rename implements FS.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	fromDir, fromBase, err := m.dirOf("rename", from)
	if err != nil {
		return err
	}
	n := fromDir.entries[fromBase]
	if n == (memNode{}) {
		return pathError("rename", from, fs.ErrNotExist)
	}
	toDir, toBase, err := m.newName("rename", to)
	if err != nil {
		return err
	}
	if n.dir != nil && strings.HasPrefix(cleanName(to), cleanName(from)+"/") {
		return pathError("rename", to, fs.ErrInvalid)
	}
	// Two changes with one number: a crash with Prefix leaves both or none, with Chaos perhaps one.
	seq := m.nextSeq()
	toDir.putNode(seq, toBase, n)
	fromDir.putNode(seq, fromBase, memNode{})
	return nil
}

// Link implements FS.
func (m *Mem) Link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.fileOf("link", from)
	if err != nil {
		return err
	}
	d, base, err := m.newName("link", to)
	if err != nil {
		return err
	}
	d.putNode(m.nextSeq(), base, memNode{file: f})
	return nil
}

// Clone implements FS.
func (m *Mem) Clone(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.fileOf("clone", from)
	if err != nil {
		return err
	}
	d, base, err := m.newName("clone", to)
	if err != nil {
		return err
	}
	copied := &memFile{}
	if f.now.size > m.greatestSize(copied) {
		return pathError("clone", to, errMemFull)
	}
	p := make([]byte, f.now.size)
	f.now.readAt(p, 0)
	d.putNode(m.nextSeq(), base, memNode{file: copied})
	// A change of its own: a crash may leave the name without the bytes.
	copied.writeAt(m.nextSeq(), p, 0)
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Directories that are held open exist. Others can't be reached.
	if m.held != nil {
		if m.findNode(cleanName(dir)).dir == nil {
			return pathError("mkdir", dir, m.absentError())
		}
		return nil
	}
	d := m.root
	for part := range strings.SplitSeq(cleanName(dir), "/") {
		if part == "" {
			continue
		}
		n := d.entries[part]
		if n.file != nil {
			return pathError("mkdir", dir, fs.ErrExist)
		}
		if n.dir == nil {
			n.dir = newMemDir()
			d.putNode(m.nextSeq(), part, n)
		}
		d = n.dir
	}
	return nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	d := m.findNode(cleanName(dir)).dir
	if d == nil {
		return nil, pathError("list", dir, m.absentError())
	}
	return slices.Sorted(maps.Keys(d.entries)), nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch n := m.findNode(cleanName(name)); {
	case n.file != nil:
		// The node itself tells two names of one file.
		return Info{Size: n.file.now.size, file: n.file}, nil
	case n.dir != nil:
		return Info{IsDir: true, file: n.dir}, nil
	}
	return Info{}, pathError("stat", name, m.absentError())
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.findNode(cleanName(dir)).dir
	if d == nil {
		return pathError("syncdir", dir, m.absentError())
	}
	// Names become durable, but not the contents of the files.
	for _, c := range d.pending {
		setName(d.durable, c.name, c.node)
	}
	d.pending = nil
	return nil
}

// DropUnsynced does what a failed sync of a file or directory does on common file
// systems: unsynced changes stay visible, but later syncs take them for written, so
// that a crash loses them.
func (m *Mem) DropUnsynced(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch n := m.findNode(cleanName(name)); {
	case n.file != nil:
		n.file.dropUnsynced()
	case n.dir != nil:
		// The entries stay visible, but no later sync makes them durable.
		n.dir.pending = nil
	}
}

// Free implements FS. It returns -1 without a capacity.
func (m *Mem) Free(dir string) (int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.findNode(cleanName(dir)).dir == nil {
		return -1, pathError("free", dir, m.absentError())
	}
	return m.freeBytes(), nil
}

// memOwner is the name of who holds a lock: nobody else reaches a Mem.
const memOwner = "this process"

// Lock implements FS.
func (m *Mem) Lock(name string, shared bool) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.dirOf("lock", name)
	if err != nil {
		return nil, err
	}
	n := d.entries[base]
	if n.dir != nil {
		return nil, pathError("lock", name, fs.ErrInvalid)
	}
	// Locks are of the directory, whatever becomes of the file. A crash clone has none.
	switch held := d.locks; {
	case held < 0:
		return nil, &LockedError{Name: name, Owner: memOwner}
	case shared:
		d.locks++
		return &memLock{m: m, dir: d}, nil
	case held > 0:
		return nil, &LockedError{Name: name, Shared: true}
	}
	if n.file == nil {
		n.file = &memFile{}
		d.putNode(m.nextSeq(), base, n)
	}
	d.locks = -1
	// These are changes as others are: a crash may leave a half-written name, which must do no
	// harm.
	n.file.setSize(m.nextSeq(), 0)
	n.file.writeAt(m.nextSeq(), []byte(memOwner+"\n"), 0)
	return &memLock{m: m, dir: d, file: n.file}, nil
}

// memLock is a lock that is held.
type memLock struct {
	m    *Mem
	dir  *memDir  // nil: it was released; guarded by m.mu
	file *memFile // the lock file, which has the owner's name; nil if shared
}

// Close releases the lock.
func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.dir == nil {
		return fs.ErrClosed
	}
	if l.file != nil {
		l.file.setSize(l.m.nextSeq(), 0)
		l.dir.locks = 0
	} else {
		l.dir.locks--
	}
	l.dir = nil
	return nil
}
