package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestModesAndLinks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x", "y")
	must(t, OS().MkdirAll(dir))
	name := filepath.Join(dir, "a")
	put(t, OS(), name, "")
	l, err := OS().Lock(filepath.Join(dir, "LOCK"), false, "")
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
	if _, err := OS().Lock(link, false, ""); err == nil {
		t.Error("locked through a link")
	}
}

func TestNoSpaceErrors(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, syscall.EDQUOT, &fs.PathError{Op: "write", Err: syscall.ENOSPC}} {
		if !IsNoSpace(err) {
			t.Errorf("%v isn't recognised", err)
		}
	}
	file, err := OS().OpenReadWrite("/dev/full")
	if err != nil {
		t.Skip(err)
	}
	defer file.Close()
	if _, err := file.WriteVec([][]byte{[]byte("a"), []byte("b")}, 0); !IsNoSpace(err) {
		t.Errorf("write to a full device: %v", err)
	}
}

// TestLockOfAnotherProcess holds a lock in a child process, and kills it.
func TestLockOfAnotherProcess(t *testing.T) {
	name := os.Getenv("BROCK_TEST_LOCK")
	if name != "" {
		if _, err := OS().Lock(name, false, ""); err != nil {
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
	_, lockErr := OS().Lock(name, false, "")
	if want := fmt.Sprintf("pid %d on host ", child.Process.Pid); !errors.As(lockErr, &l) || !strings.HasPrefix(l.Owner, want) {
		t.Errorf("got %v, want a refusal by %s", lockErr, want)
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
	must(t, err)
	again, err := OS().Lock(name, false, "")
	must(t, err)
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
