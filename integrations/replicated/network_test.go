package replicated

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// network is a network in memory with faults. Bytes that are sent into a cut link are lost; so a
// connection that lost some fails once the link is whole again.
type network struct {
	mu    sync.Mutex // guards:
	nodes map[raft.ServerAddress]*layer
	cuts  map[[2]raft.ServerAddress]bool
	slow  map[[2]raft.ServerAddress]time.Duration
}

func newNetwork() *network {
	return &network{nodes: map[raft.ServerAddress]*layer{}, cuts: map[[2]raft.ServerAddress]bool{}, slow: map[[2]raft.ServerAddress]time.Duration{}}
}

// cut cuts or mends the link from one node to another, in this direction only.
func (n *network) cut(from, to raft.ServerAddress, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[[2]raft.ServerAddress{from, to}] = cut
}

// heal mends all links.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	clear(n.slow)
}

func (n *network) isCut(from, to raft.ServerAddress) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cuts[[2]raft.ServerAddress{from, to}]
}

// delay returns how long bytes take.
func (n *network) delay(from, to raft.ServerAddress) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.slow[[2]raft.ServerAddress{from, to}]
}

// layer is the network of one node.
type layer struct {
	net     *network
	address raft.ServerAddress
	in      chan net.Conn
	closed  chan struct{}
	once    sync.Once
	dead    atomic.Bool // the node was killed: nobody hears of it any more
}

// listen takes an address; a node that had it before is no longer there.
func (n *network) listen(address raft.ServerAddress) *layer {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &layer{net: n, address: address, in: make(chan net.Conn), closed: make(chan struct{})}
	n.nodes[address] = l
	return l
}

func (l *layer) Accept() (net.Conn, error) {
	select {
	case c := <-l.in:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *layer) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *layer) Addr() net.Addr { return advertised(l.address) }

func (l *layer) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	l.net.mu.Lock()
	other := l.net.nodes[to]
	l.net.mu.Unlock()
	if other == nil {
		return nil, errors.New("nobody listens")
	}
	after := time.After(timeout)
	if l.net.isCut(l.address, to) || l.net.isCut(to, l.address) {
		select {
		case <-after:
		case <-l.closed:
		}
		return nil, os.ErrDeadlineExceeded
	}
	near, far := net.Pipe()
	select {
	case other.in <- far:
		return &link{Conn: near, net: l.net, from: l.address, to: to, near: l, far: other}, nil
	case <-other.closed:
		return nil, errors.New("connection refused")
	case <-l.closed:
		return nil, net.ErrClosed
	case <-after:
		return nil, os.ErrDeadlineExceeded
	}
}

// link is the end of a connection that has dialled. It has the faults of both directions.
type link struct {
	net.Conn
	net      *network
	from, to raft.ServerAddress

	near, far *layer
	mu        sync.Mutex // guards:
	lost      bool
}

// isCut reports whether bytes are lost in a direction.
func (c *link) isCut(from, to raft.ServerAddress) bool {
	return c.near.dead.Load() || c.far.dead.Load() || c.net.isCut(from, to)
}

var errReset = errors.New("connection reset")

func (c *link) lose() {
	c.mu.Lock()
	c.lost = true
	c.mu.Unlock()
}

func (c *link) hasLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

func (c *link) Write(p []byte) (int, error) {
	if d := c.net.delay(c.from, c.to); d > 0 {
		time.Sleep(d)
	}
	if c.isCut(c.from, c.to) {
		c.lose()
		return len(p), nil
	}
	if c.hasLost() {
		_ = c.Close()
		return 0, errReset
	}
	return c.Conn.Write(p)
}

func (c *link) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if d := c.net.delay(c.to, c.from); d > 0 {
			time.Sleep(d)
		}
		if err == nil && c.isCut(c.to, c.from) {
			c.lose()
			continue
		}
		if err == nil && c.hasLost() {
			_ = c.Close()
			return 0, errReset
		}
		return n, err
	}
}
