// Command example runs a group of three processes over TCP with mutual TLS, on this machine.
//
//	go run ./example
//
// reads commands; "help" lists them. "go run ./example demo" shows a kill and a return by itself.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/brockdb/brock/integrations/replicated"
	"github.com/brockdb/brock/integrations/replicated/internal/devcert"
)

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the command: the parent, or with "node" one of its children.
func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 5 && args[0] == "node" {
		return runNode(args[1], args[2], args[3], args[4], in, out)
	}
	dir, err := os.MkdirTemp("", "brock-replicated-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g, err := startGroup(dir, 3)
	if err != nil {
		return err
	}
	defer g.stop()
	// After Ctrl-C the children end, too, as their input ends.
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(stopped)
	ended := make(chan error, 1)
	go func() {
		if len(args) > 0 && args[0] == "demo" {
			ended <- g.demo(out)
			return
		}
		ended <- g.interact(in, out)
	}()
	select {
	case err := <-ended:
		return err
	case <-stopped:
		return errors.New("interrupted")
	}
}

// runNode is one process of the group, which the one at the address first begins. It answers each line of in by a line of out.
func runNode(id, dir, address, first string, in io.Reader, out io.Writer) error {
	certs := filepath.Dir(dir)
	credentials, err := replicated.LoadCredentials(filepath.Join(certs, id+".pem"), filepath.Join(certs, id+".key"), filepath.Join(certs, "ca.pem"))
	if err != nil {
		return err
	}
	network, err := replicated.ListenTLS(address, "", credentials)
	if err != nil {
		return err
	}
	node, err := replicated.Open(replicated.Options{ID: id, Dir: dir, Network: network, Heartbeat: 500 * time.Millisecond, SnapshotBytes: 1 << 20})
	if err != nil {
		return err
	}
	defer node.Close()
	switch { // a node that is new
	case len(node.Status().Members) > 0:
	case first == address:
		err = node.Bootstrap(context.Background())
	default:
		err = node.Join(context.Background(), first, true)
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer, err := obey(node, strings.Fields(lines.Text()))
		if err != nil {
			answer = "error: " + err.Error()
		}
		fmt.Fprintln(out, strings.ReplaceAll(answer, "\n", " "))
	}
	return lines.Err()
}

// obey does one command on a node.
func obey(node *replicated.Node, words []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	read := func(maxAge time.Duration) (value string, err error) {
		err = node.View(ctx, maxAge, func(txn *replicated.Reader) error {
			item, err := txn.Get([]byte(words[1]))
			if err != nil {
				return err
			}
			b, err := item.ValueCopy(nil)
			value = fmt.Sprintf("%s (version %d)", b, item.Version())
			return err
		})
		return value, err
	}
	switch {
	case len(words) == 3 && words[0] == "set":
		version, err := node.Apply(ctx, new(replicated.Command).Set([]byte(words[1]), []byte(words[2])))
		return fmt.Sprintf("version %d", version), err
	case len(words) == 2 && words[0] == "get":
		return read(replicated.Newest)
	case len(words) == 2 && words[0] == "stale":
		return read(replicated.AnyAge)
	case len(words) == 1 && words[0] == "status":
		s := node.Status()
		return fmt.Sprintf("leader %s, term %d, applied %d, snapshot %d", s.Leader, s.Term, s.Applied, s.Snapshot), node.Err()
	case len(words) == 1 && words[0] == "digest":
		index, digest, err := node.Digest(ctx)
		return fmt.Sprintf("%d %x", index, digest[:8]), err
	}
	return "", errors.New("commands are: set KEY VALUE, get KEY, stale KEY, status, digest")
}

// group is the processes, as their parent sees them.
type group struct {
	dir   string
	nodes map[string]*process
	order []string
}

// process is a child.
type process struct {
	address string
	cmd     *exec.Cmd // nil: it does not run
	in      io.WriteCloser
	out     *bufio.Reader
}

// startGroup starts n processes, with certificates of an authority of their own.
func startGroup(dir string, n int) (*group, error) {
	authority, err := devcert.NewAuthority(dir)
	if err != nil {
		return nil, err
	}
	g := &group{dir: dir, nodes: map[string]*process{}}
	for i := range n {
		id := fmt.Sprintf("n%d", i+1)
		if err := authority.Issue(dir, id); err != nil {
			return nil, err
		}
		free, err := net.Listen("tcp", "127.0.0.1:0") // a port that nobody has
		if err != nil {
			return nil, err
		}
		address := free.Addr().String()
		if err := free.Close(); err != nil {
			return nil, err
		}
		g.nodes[id], g.order = &process{address: address}, append(g.order, id)
	}
	for _, id := range g.order {
		if err := g.start(id); err != nil {
			g.stop()
			return nil, err
		}
		if _, err := g.ask(id, "status"); err != nil { // it has joined
			g.stop()
			return nil, err
		}
	}
	return g, nil
}

// start starts the process of a node.
func (g *group) start(id string) error {
	p := g.nodes[id]
	if p == nil || p.cmd != nil {
		return fmt.Errorf("there is no %q that does not run", id)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "node", id, filepath.Join(g.dir, id), p.address, g.nodes[g.order[0]].address)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.in, p.out = cmd, in, bufio.NewReader(out)
	return nil
}

// kill ends a process as kill -9 does.
func (g *group) kill(id string) error {
	p := g.nodes[id]
	if p == nil || p.cmd == nil {
		return fmt.Errorf("there is no %q that runs", id)
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
	return nil
}

// stop ends all processes.
func (g *group) stop() {
	for _, p := range g.nodes {
		if p.cmd != nil {
			_ = p.in.Close()
		}
	}
	for _, p := range g.nodes {
		if p.cmd != nil {
			_ = p.cmd.Wait()
			p.cmd = nil
		}
	}
}

// ask gives a line to a process, and returns its answer.
func (g *group) ask(id, line string) (string, error) {
	p := g.nodes[id]
	if p == nil || p.cmd == nil {
		return "", fmt.Errorf("there is no %q that runs", id)
	}
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return "", err
	}
	answer, err := p.out.ReadString('\n')
	if answer = strings.TrimSpace(answer); strings.HasPrefix(answer, "error: ") {
		return "", errors.New(answer)
	}
	return answer, err
}

const help = `n1 set KEY VALUE   writes, through any node
n1 get KEY         reads the newest value
n1 stale KEY       reads what this node has
n1 status          who leads, how far it is
n1 digest          of all that it has
kill n1            as kill -9
start n1
quit`

// interact obeys lines until they end.
func (g *group) interact(in io.Reader, out io.Writer) error {
	fmt.Fprintln(out, help)
	lines := bufio.NewScanner(in)
	for fmt.Fprint(out, "> "); lines.Scan(); fmt.Fprint(out, "> ") {
		words := strings.Fields(lines.Text())
		var answer string
		var err error
		switch {
		case len(words) == 0:
			continue
		case words[0] == "quit":
			return nil
		case words[0] == "help":
			answer = help
		case len(words) == 2 && words[0] == "kill":
			err = g.kill(words[1])
		case len(words) == 2 && words[0] == "start":
			err = g.start(words[1])
		default:
			answer, err = g.ask(words[0], strings.Join(words[1:], " "))
		}
		if err != nil {
			answer = err.Error()
		}
		if answer != "" {
			fmt.Fprintln(out, answer)
		}
	}
	return lines.Err()
}

// demo kills the leader, writes on, and lets it come back.
func (g *group) demo(out io.Writer) error {
	show := func(id, line string) error {
		answer, err := g.ask(id, line)
		fmt.Fprintf(out, "%s %s\n    %s\n", id, line, answer)
		return err
	}
	if err := show("n1", "set color green"); err != nil {
		return err
	}
	answer, err := g.ask("n1", "status")
	if err != nil {
		return err
	}
	leader, _, _ := strings.Cut(strings.TrimPrefix(answer, "leader "), ",")
	var others []string
	for _, id := range g.order {
		if id != leader {
			others = append(others, id)
		}
	}
	fmt.Fprintf(out, "kill -9 of %s, which leads\n", leader)
	if err := g.kill(leader); err != nil {
		return err
	}
	for _, line := range []string{"get color", "set color blue", "status"} {
		if err := show(others[0], line); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%s comes back\n", leader)
	if err := g.start(leader); err != nil {
		return err
	}
	if err := show(leader, "get color"); err != nil {
		return err
	}
	digest, err := g.compare()
	if err == nil {
		fmt.Fprintf(out, "all have the same: %s\n", digest)
	}
	return err
}

// compare waits until all nodes are at one entry, and returns their digest, or an error if they differ.
func (g *group) compare() (string, error) {
	for try := 0; ; try++ {
		digests := map[string][]string{}
		for _, id := range g.order {
			if _, err := g.ask(id, "get color"); err != nil && !strings.Contains(err.Error(), "not found") {
				return "", err // a read of the newest state lets it catch up
			}
			d, err := g.ask(id, "digest")
			if err != nil {
				return "", err
			}
			digests[d] = append(digests[d], id)
		}
		if len(digests) == 1 {
			for d := range digests {
				return d, nil
			}
		}
		if try == 100 {
			return "", fmt.Errorf("the nodes differ: %v", digests)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
