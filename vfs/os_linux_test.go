package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestModesAndLinks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x", "y")
	must(t, OS().MkdirAll(dir))
	name := filepath.Join(dir, "a")
	put(t, OS(), name, "")
	l, err := OS().Lock(filepath.Join(dir, "LOCK"), false)
	must(t, err)
	defer l.Close()
	for path, want := range map[string]fs.FileMode{name: 0o600, filepath.Join(dir, "LOCK"): 0o600, dir: 0o700, filepath.Dir(dir): 0o700} {
		if i, err := os.Stat(path); err != nil || i.Mode().Perm() != want {
			t.Errorf("%s: mode %v, want %v", path, i.Mode().Perm(), want)
		}
	}
	link := filepath.Join(dir, "link")
	must(t, os.Symlink(filepath.Join(dir, "target"), link))
	if _, err := OS().Create(link); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create over a link: %v", err)
	}
	if _, err := OS().Lock(link, false); err == nil {
		t.Error("locked through a link")
	}
}

// TestIrregularFiles puts what is no regular file under a name. Each call fails at
// once: none waits for the other end of a pipe, or follows a link.
func TestIrregularFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(base string) string { return filepath.Join(dir, base) }
	put(t, OS(), in("file"), "x")
	must(t, unix.Mkfifo(in("pipe"), 0o600))
	must(t, os.Mkdir(in("directory"), 0o700))
	must(t, os.Symlink("file", in("link")))
	must(t, os.Symlink("nothing", in("dangling")))
	must(t, os.Symlink("loop", in("loop")))
	socket, err := net.Listen("unix", in("socket"))
	must(t, err)
	defer socket.Close()
	names := []string{"pipe", "directory", "link", "dangling", "loop", "socket"}
	for _, base := range names {
		_, err := OS().Open(in(base))
		_, err2 := OS().OpenReadWrite(in(base))
		if !errors.Is(err, fs.ErrInvalid) || !errors.Is(err2, fs.ErrInvalid) {
			t.Errorf("%s is opened: %v, %v", base, err, err2)
		}
		if _, err := OS().Create(in(base)); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s is created over: %v", base, err)
		}
		if err := OS().Rename(in("file"), in(base)); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s is renamed over: %v", base, err)
		}
		for _, shared := range []bool{true, false} {
			if _, err := OS().Lock(in(base), shared); err == nil {
				t.Errorf("%s is locked", base)
			}
		}
		if _, err := os.Lstat(in(base)); err != nil {
			t.Errorf("%s is gone: %v", base, err)
		}
	}
}

// TestReplacedFiles opens a name that other files take meanwhile. It means a regular file at any
// moment, so no look at it fails.
func TestReplacedFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	put(t, OS(), name, "x")
	done := make(chan struct{})
	replaced := make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				replaced <- nil
				return
			default:
			}
			// The files before stay: an inode that is free would be the next file's.
			old := filepath.Join(dir, fmt.Sprint("old", i))
			next := filepath.Join(dir, fmt.Sprint("next", i))
			err := errors.Join(os.Link(name, old), os.WriteFile(next, nil, 0o600), os.Rename(next, name))
			if err != nil {
				replaced <- err
				return
			}
		}
	}()
	for range 1500 {
		f, err := OS().OpenReadWrite(name)
		if err != nil {
			t.Error(err)
			break
		}
		must(t, f.Close())
	}
	close(done)
	must(t, <-replaced)
}

// TestOverlaidFiles opens files of the lower layer of an overlay that have several names. They get
// another inode when they are first opened for writing.
func TestOverlaidFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(base string) string { return filepath.Join(dir, base) }
	for _, base := range []string{"lower", "upper", "work", "merged"} {
		must(t, os.Mkdir(in(base), 0o700))
	}
	for _, base := range []string{"LOCK", "a"} {
		put(t, OS(), in("lower/"+base), "x")
		must(t, os.Link(in("lower/"+base), in("lower/"+base+"2")))
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", in("lower"), in("upper"), in("work"))
	if err := unix.Mount("overlay", in("merged"), "overlay", 0, layers); err != nil {
		t.Skip("this process can't mount an overlay: ", err)
	}
	defer func() { must(t, unix.Unmount(in("merged"), 0)) }()
	l, err := OS().Lock(in("merged/LOCK"), false)
	must(t, err)
	must(t, l.Close())
	f, err := OS().OpenReadWrite(in("merged/a"))
	must(t, err)
	must(t, f.Close())
}

func TestNoSpaceErrors(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, syscall.EDQUOT, &fs.PathError{Op: "write", Err: syscall.ENOSPC}} {
		if !IsNoSpace(err) {
			t.Errorf("%v isn't recognised", err)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	file := osFile{full}
	defer file.Close()
	if _, err := file.WriteVec([][]byte{[]byte("a"), []byte("b")}, 0); !IsNoSpace(err) {
		t.Errorf("write to a full device: %v", err)
	}
}

// TestLockOfAnotherProcess holds a lock in a child process, and kills it.
func TestLockOfAnotherProcess(t *testing.T) {
	name := os.Getenv("BROCK_TEST_LOCK")
	if name != "" {
		if _, err := OS().Lock(name, false); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("locked")
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or left alone
		return
	}
	name = filepath.Join(t.TempDir(), "LOCK")
	child := exec.Command(os.Args[0], "-test.run=^TestLockOfAnotherProcess$")
	child.Env = append(os.Environ(), "BROCK_TEST_LOCK="+name)
	out, err := child.StdoutPipe()
	must(t, err)
	in, err := child.StdinPipe()
	must(t, err)
	defer in.Close()
	must(t, child.Start())
	first, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && first != "locked\n" {
		err = errors.New(first)
	}
	var l *LockedError
	_, lockErr := OS().Lock(name, false)
	if want := fmt.Sprintf("pid %d on host ", child.Process.Pid); !errors.As(lockErr, &l) || !strings.HasPrefix(l.Owner, want) {
		t.Errorf("got %v, want a refusal by %s", lockErr, want)
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
	must(t, err)
	again, err := OS().Lock(name, false)
	must(t, err)
	if _, err := OS().Lock(name, false); !errors.As(err, &l) || l.Owner != ownName()+", which is this process" {
		t.Errorf("got %v, want a refusal by this process", err)
	}
	must(t, again.Close())
}

func BenchmarkWriteVec(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			file, err := OS().Create(filepath.Join(b.TempDir(), "a"))
			if err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			bufs := make([][]byte, n)
			for i := range bufs {
				bufs[i] = make([]byte, 128)
			}
			b.ReportAllocs()
			for range b.N {
				if _, err := file.WriteVec(bufs, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
