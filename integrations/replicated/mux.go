package replicated

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// The first bytes of a connection. The birth of the node that it is for follows.
const (
	prefaceRaft = "br1r"
	prefacePeer = "br1p"
)

// birth tells a node from one that had its ID before, and has lost its directory: such a node has
// forgotten its votes and its log, and must not be taken for the other one. It is a random number that
// is stored when a directory is new, and a part of the address in raft's configuration.
type birth [8]byte

// anyone is for a connection to whoever is there. Raft has none.
var anyone birth

// withBirth returns the address by which raft knows a node.
func withBirth(host string, b birth) raft.ServerAddress {
	return raft.ServerAddress(fmt.Sprintf("%x@%s", b, host))
}

// splitAddress returns where a node is reached, and its birth; anyone, if the address has none.
func splitAddress(a raft.ServerAddress) (host string, b birth) {
	number, host, found := strings.Cut(string(a), "@")
	if n, err := hex.Decode(b[:], []byte(number)); !found || len(number) != 2*len(b) || n != len(b) || err != nil {
		return string(a), anyone
	}
	return host, b
}

// mux shares the connections of a raft.StreamLayer between raft and the nodes' own protocol. It is
// raft's StreamLayer. It knows all connections: a node that has stopped must not be heard any more,
// whatever raft's goroutines do.
type mux struct {
	base     raft.StreamLayer
	birth    birth          // of this node; set before start
	timeout  time.Duration  // for the first bytes of a connection
	serve    func(net.Conn) // serves a connection of the nodes' protocol
	accepted chan net.Conn  // raft's
	ended    chan struct{}

	mu     sync.Mutex // guards:
	conns  map[net.Conn]struct{}
	closed bool
	wait   sync.WaitGroup
}

func newMux(base raft.StreamLayer, timeout time.Duration, serve func(net.Conn)) *mux {
	return &mux{
		base: base, timeout: timeout, serve: serve, accepted: make(chan net.Conn), ended: make(chan struct{}),
		conns: map[net.Conn]struct{}{},
	}
}

// start begins to take connections.
func (m *mux) start() {
	m.wait.Add(1)
	go m.accept()
}

// accept takes connections until mux is closed.
func (m *mux) accept() {
	defer m.wait.Done()
	for {
		c, err := m.base.Accept()
		if err != nil {
			select {
			case <-m.ended:
				return
			case <-time.After(10 * time.Millisecond): // out of descriptors, or a handshake that failed
			}
			continue
		}
		if c, err = m.track(c); err == nil {
			m.wait.Add(1)
			go m.hand(c)
		}
	}
}

// hand reads the first bytes of a connection, and hands it on.
func (m *mux) hand(c net.Conn) {
	defer m.wait.Done()
	var preface [len(prefaceRaft) + len(birth{})]byte
	_ = c.SetDeadline(time.Now().Add(m.timeout))
	_, err := io.ReadFull(c, preface[:])
	_ = c.SetDeadline(time.Time{})
	kind, to := string(preface[:len(prefaceRaft)]), birth(preface[len(prefaceRaft):])
	switch {
	case err == nil && kind == prefaceRaft && to == m.birth:
		select {
		case m.accepted <- c:
			return
		case <-m.ended:
		}
	case err == nil && kind == prefacePeer && (to == m.birth || to == anyone):
		m.serve(c)
	}
	_ = c.Close()
}

// tracked is a connection that mux closes if nobody has.
type tracked struct {
	net.Conn
	m *mux
}

// Close implements net.Conn.
func (t *tracked) Close() error {
	t.m.mu.Lock()
	delete(t.m.conns, t)
	t.m.mu.Unlock()
	return t.Conn.Close()
}

func (m *mux) track(c net.Conn) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	t := &tracked{c, m}
	m.conns[t] = struct{}{}
	return t, nil
}

// dialAs opens a connection that begins with the preface. It ends if the node there is of another birth.
func (m *mux) dialAs(preface string, address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	select {
	case <-m.ended:
		return nil, net.ErrClosed
	default:
	}
	host, to := splitAddress(address)
	c, err := m.base.Dial(raft.ServerAddress(host), timeout)
	if err != nil {
		return nil, err
	}
	if c, err = m.track(c); err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(timeout))
	if _, err := c.Write(append([]byte(preface), to[:]...)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, c.SetDeadline(time.Time{})
}

// Dial implements raft.StreamLayer.
func (m *mux) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return m.dialAs(prefaceRaft, address, timeout)
}

// Accept implements net.Listener.
func (m *mux) Accept() (net.Conn, error) {
	select {
	case c := <-m.accepted:
		return c, nil
	case <-m.ended:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener: the address by which raft knows this node.
func (m *mux) Addr() net.Addr { return advertised(withBirth(m.base.Addr().String(), m.birth)) }

// Close implements net.Listener. It closes all connections, and waits for nothing.
func (m *mux) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	close(m.ended)
	conns := m.conns
	m.conns = map[net.Conn]struct{}{}
	m.mu.Unlock()
	err := m.base.Close()
	for c := range conns {
		// TLS says goodbye, which may wait for the other side.
		go func() { _ = c.(*tracked).Conn.Close() }()
	}
	return err
}
