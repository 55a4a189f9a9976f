package replicated

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// The first bytes of a connection.
const (
	prefaceRaft = "br1r"
	prefacePeer = "br1p"
)

// mux shares the connections of a raft.StreamLayer between raft and the nodes' own protocol. It is
// raft's StreamLayer. It knows all connections: a node that has stopped must not be heard any more,
// whatever raft's goroutines do.
type mux struct {
	base     raft.StreamLayer
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
	var preface [len(prefaceRaft)]byte
	_ = c.SetDeadline(time.Now().Add(m.timeout))
	_, err := io.ReadFull(c, preface[:])
	_ = c.SetDeadline(time.Time{})
	switch {
	case err == nil && string(preface[:]) == prefaceRaft:
		select {
		case m.accepted <- c:
			return
		case <-m.ended:
		}
	case err == nil && string(preface[:]) == prefacePeer:
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

// dialAs opens a connection that begins with the preface.
func (m *mux) dialAs(preface string, address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	select {
	case <-m.ended:
		return nil, net.ErrClosed
	default:
	}
	c, err := m.base.Dial(address, timeout)
	if err != nil {
		return nil, err
	}
	if c, err = m.track(c); err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(timeout))
	if _, err := io.WriteString(c, preface); err != nil {
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

// Addr implements net.Listener.
func (m *mux) Addr() net.Addr { return m.base.Addr() }

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
