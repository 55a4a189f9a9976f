package replicated

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/integrations/replicated/internal/devcert"
)

// credentials makes credentials in a new directory.
func credentials(t *testing.T, a *devcert.Authority, dir, name string) *Credentials {
	t.Helper()
	must(t, a.Issue(dir, name))
	c, err := LoadCredentials(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"), filepath.Join(dir, "ca.pem"))
	must(t, err)
	return c
}

// TestTLS runs a group over TCP, changes the certificates and the authority of its nodes while it
// works, and lets strangers try.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	authority, err := devcert.NewAuthority(dir)
	must(t, err)
	var nodes []*Node
	var held []*Credentials
	for i := range 3 {
		id := fmt.Sprintf("n%d", i+1)
		c := credentials(t, authority, dir, id)
		l, err := ListenTLS("127.0.0.1:0", "", c)
		must(t, err)
		n, err := Open(Options{ID: id, Dir: filepath.Join(dir, id), Network: l, Heartbeat: 300 * time.Millisecond, Store: brock.Options{MemoryLimit: 4 << 20}})
		must(t, err)
		defer n.Close()
		nodes, held = append(nodes, n), append(held, c)
	}
	ctx := within(t, time.Minute)
	must(t, nodes[0].Bootstrap(ctx))
	address, _ := splitAddress(nodes[0].address())
	for _, n := range nodes[1:] {
		must(t, n.Join(ctx, address, true))
	}
	set := func(value string) {
		t.Helper()
		if _, err := nodes[1].Apply(ctx, new(Command).Set([]byte("k"), []byte(value))); err != nil {
			t.Fatal(err)
		}
		if v, err := get(nodes[2], Newest, "k"); err != nil || v != value {
			t.Fatalf("%q, %v", v, err)
		}
	}
	set("1")
	ask := func(c *tls.Config) error {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Second}, "tcp", address, c)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := conn.Write(append([]byte(prefacePeer), anyone[:]...)); err != nil {
			return err
		}
		if err := writeMessage(conn, callTerm, nil); err != nil {
			return err
		}
		status, _, err := readMessage(conn)
		if err == nil && status != statusDone {
			err = errors.New("refused")
		}
		return err
	}
	must(t, ask(held[1].config()))
	elsewhere := t.TempDir()
	foreign, err := devcert.NewAuthority(elsewhere)
	must(t, err)
	stranger := credentials(t, foreign, elsewhere, "n1").config()
	stranger.RootCAs = held[0].config().RootCAs
	without := held[0].config()
	without.Certificates = nil
	distrust := held[0].config()
	distrust.RootCAs = stranger.ClientCAs
	for what, c := range map[string]*tls.Config{
		"a certificate of another authority": stranger, "no certificate": without, "a client that trusts another authority": distrust,
	} {
		if err := ask(c); err == nil {
			t.Errorf("%s is let in", what)
		}
	}
	if conn, err := net.Dial("tcp", address); err == nil { // no TLS at all
		_, _ = conn.Write([]byte(prefacePeer + prefacePeer))
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if _, _, err := readMessage(conn); err == nil {
			t.Error("a connection without TLS is served")
		}
		_ = conn.Close()
	}
	// A new authority. Files that can't be read change nothing.
	authority, err = devcert.NewAuthority(dir)
	must(t, err)
	for i, c := range held {
		must(t, authority.Issue(dir, fmt.Sprintf("n%d", i+1)))
		good := c.keyFile
		c.keyFile = filepath.Join(dir, "absent")
		if err := c.Reload(); err == nil {
			t.Error("a missing key is no error")
		}
		c.keyFile = good
	}
	set("2")
	for _, c := range held {
		must(t, c.Reload())
	}
	for _, n := range nodes { // what is open stays; now it is dialled anew
		n.transport.CloseStreams()
		n.peers.mu.Lock()
		for a, idle := range n.peers.idle {
			for _, c := range idle {
				_ = c.Close()
			}
			delete(n.peers.idle, a)
		}
		n.peers.mu.Unlock()
	}
	set("3")
	if err := ask(stranger); err == nil {
		t.Error("a stranger is let in")
	}
	if _, err := ListenTLS("127.0.0.1:0", "", nil); err == nil {
		t.Error("no credentials are no error")
	}
}
