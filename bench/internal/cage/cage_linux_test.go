package cage

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A process in a cage can't take more memory than the limit: tail keeps all
// of a line that has no end.
func TestCage(t *testing.T) {
	c, err := New(32 << 20)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	}()
	cmd := exec.Command("sh", "-c", "read go; head -c 200000000 /dev/zero | tail -n 1 >/dev/null")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	in.Write([]byte("\n"))
	if err := cmd.Wait(); err == nil {
		t.Error("a process took 200 MB in a cage of 32 MB")
	}
}

func TestNewSaysWhy(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can have a cage, perhaps")
	}
	if _, err := New(1 << 30); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), ": ") {
		t.Errorf("New: %v", err)
	}
}

// What still runs in a cage ends with it.
func TestRemoveEndsWhatRuns(t *testing.T) {
	c, err := New(32 << 20)
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	Clean()
	if err := <-ended; err == nil {
		t.Error("the process ended by itself")
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cage is still there: %v", err)
	}
}
