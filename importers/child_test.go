package importers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/brockdb/brock"
)

// runChild is what a process does that a test has started.
func runChild(args []string) int {
	var err error
	switch args[0] {
	case "hold": // fixture, path: writes the source, says so, and holds it open
		for _, f := range fixtures() {
			if f.name == args[1] {
				_, err = f.write(args[2])
			}
		}
		if err == nil {
			fmt.Println("open")
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	case "import": // peer, source, store, history or not, large or not
		o := Options{Peer: Peer(args[1]), Source: args[2], Store: brock.Options{Dir: args[3]}, History: args[4] == "history"}
		if len(args) == 5 {
			o.chunkBytes = 64 << 10
		}
		fmt.Println("begun")
		_, err = Import(context.Background(), o)
		if errors.Is(err, ErrDiffers) {
			return 3
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child returns a process that is about to do what runChild says.
func child(t *testing.T, args string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), beChild+"="+args)
	cmd.Stderr = os.Stderr
	return cmd
}

// started starts a child and waits for its first line.
func started(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

// holding starts a process that has written a source and has it open. kill ends it by SIGKILL.
func holding(t *testing.T, name, path string) (kill func()) {
	t.Helper()
	cmd := child(t, "hold|"+name+"|"+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	started(t, cmd)
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		_ = in.Close()
	}
}
