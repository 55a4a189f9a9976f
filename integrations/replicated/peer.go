package replicated

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// The kinds of a request, and the states of an answer.
const (
	callTerm    = 1
	callIndex   = 2
	callPropose = 3
	callChange  = 4
	callFetch   = 5

	statusDone     = 0
	statusNoLeader = 1
	statusRefused  = 2
	statusUnknown  = 3
)

const (
	maxMessage = 2 << 20 // bytes of a request or an answer
	maxIdle    = 8       // connections to a node that wait for the next request
)

// peers calls other nodes.
type peers struct {
	dial    func(address raft.ServerAddress, timeout time.Duration) (net.Conn, error)
	timeout time.Duration // of one call
	connect time.Duration // of a dial: a process that hangs is still dialled by its system

	mu   sync.Mutex // guards:
	idle map[raft.ServerAddress][]net.Conn
	busy map[net.Conn]raft.ServerAddress // connections of calls that are under way
	asks map[raft.ServerAddress]int      // calls of confirm that are under way
}

// drop ends all calls to a node, and closes its connections.
func (p *peers) drop(address raft.ServerAddress) {
	p.mu.Lock()
	conns := p.idle[address]
	delete(p.idle, address)
	for c, a := range p.busy {
		if a == address {
			conns = append(conns, c)
		}
	}
	p.mu.Unlock()
	for _, c := range conns {
		_ = c.SetDeadline(time.Unix(1, 0)) // Close of a busy TLS connection may wait
		go func() { _ = c.Close() }()
	}
}

// errNotSent is a call that has not reached the other node.
var errNotSent = errors.New("replicated: the node can't be reached")

// call sends a request and returns the answer. After errNotSent the node has not got it.
func (p *peers) call(ctx context.Context, address raft.ServerAddress, kind byte, body []byte) (status byte, answer []byte, err error) {
	deadline := time.Now().Add(p.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	for {
		c, used, err := p.take(address, time.Until(deadline))
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
		_ = c.SetDeadline(deadline)
		stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
		if err = writeMessage(c, kind, body); err == nil {
			status, answer, err = readMessage(bufio.NewReader(c))
		}
		// If ctx has ended just now, the answer counts, and the connection does not.
		if p.put(address, c, stop() && err == nil); err == nil {
			return status, answer, nil
		}
		// The other side may have closed a connection that was idle. A command is not sent again here:
		// the caller must know that it was sent, whatever the next answer is.
		if used && (kind == callTerm || kind == callIndex) && ctx.Err() == nil && time.Now().Before(deadline) {
			continue
		}
		return 0, nil, err
	}
}

// confirm reports whether a node answers that it is in this term or an older one. While very many
// calls have no answer, it asks no more.
func (p *peers) confirm(ctx context.Context, address raft.ServerAddress, timeout time.Duration, term uint64) bool {
	p.mu.Lock()
	busy := p.asks[address] >= maxIdle
	if !busy {
		p.asks[address]++
	}
	p.mu.Unlock()
	if busy {
		return false
	}
	defer func() {
		p.mu.Lock()
		p.asks[address]--
		p.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, answer, err := p.call(ctx, address, callTerm, nil)
	d := decoder{b: answer}
	return err == nil && status == statusDone && d.readNumber() <= term && d.err == nil
}

// take returns a connection, an idle one if there is one.
func (p *peers) take(address raft.ServerAddress, timeout time.Duration) (c net.Conn, used bool, err error) {
	p.mu.Lock()
	if idle := p.idle[address]; len(idle) > 0 {
		c, p.idle[address], used = idle[len(idle)-1], idle[:len(idle)-1], true
		p.busy[c] = address
	}
	p.mu.Unlock()
	if used {
		return c, true, nil
	}
	if timeout <= 0 {
		return nil, false, context.DeadlineExceeded
	}
	if c, err = p.dial(address, min(timeout, p.connect)); err != nil {
		return nil, false, err
	}
	p.mu.Lock()
	p.busy[c] = address
	p.mu.Unlock()
	return c, false, nil
}

// put gives a connection back. If it is not good any more it is closed.
func (p *peers) put(address raft.ServerAddress, c net.Conn, good bool) {
	p.mu.Lock()
	delete(p.busy, c)
	keep := good && len(p.idle[address]) < maxIdle
	if keep {
		p.idle[address] = append(p.idle[address], c)
	}
	p.mu.Unlock()
	if !keep {
		_ = c.Close()
	}
}

// fetch asks for a checkpoint, as an increment if since can be the backup before. The caller closes the
// stream.
func (p *peers) fetch(ctx context.Context, address raft.ServerAddress, name string, since []byte) (body io.ReadCloser, increment bool, err error) {
	c, err := p.dial(address, p.connect)
	if err != nil {
		return nil, false, err
	}
	r := &stream{c: c, r: bufio.NewReaderSize(c, 256<<10), timeout: p.timeout}
	r.stop = context.AfterFunc(ctx, func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(p.timeout))
	var status byte
	var answer []byte
	if err = writeMessage(c, callFetch, appendBytes(appendBytes(nil, []byte(name)), since)); err == nil {
		status, answer, err = readMessage(r.r)
	}
	switch {
	case err != nil:
	case status != statusDone:
		err = errors.New(string(answer))
	case len(answer) != 1 || answer[0] > 1 || answer[0] == 1 && since == nil:
		err = errors.New("replicated: an answer that can't be read")
	}
	if err != nil {
		return nil, false, errors.Join(err, r.Close())
	}
	return r, answer[0] == 1, nil
}

// stream is the rest of a connection. A read fails if nothing comes for timeout.
type stream struct {
	c       net.Conn
	r       *bufio.Reader
	timeout time.Duration
	stop    func() bool
}

func (s *stream) Read(p []byte) (int, error) {
	_ = s.c.SetDeadline(time.Now().Add(s.timeout))
	return s.r.Read(p)
}

func (s *stream) Close() error {
	s.stop()
	return s.c.Close()
}

// patient is a connection of which each write may take timeout.
type patient struct {
	net.Conn
	timeout time.Duration
}

func (p patient) Write(b []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(p.timeout))
	return p.Conn.Write(b)
}

func writeMessage(w io.Writer, kind byte, body []byte) error {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, 5+len(body)), uint32(1+len(body)))
	_, err := w.Write(append(append(b, kind), body...))
	return err
}

func readMessage(r io.Reader) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n < 1 || n > maxMessage {
		return 0, nil, fmt.Errorf("replicated: a message of %d bytes", n)
	}
	body = make([]byte, n-1)
	_, err = io.ReadFull(r, body)
	return head[4], body, err
}

// serveConn answers the requests of another node, one after the other.
func (n *Node) serveConn(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		kind, body, err := readMessage(r)
		if err != nil {
			return
		}
		if kind == callFetch {
			n.serveFetch(c, body)
			return
		}
		ctx, cancel := context.WithTimeout(n.ctx, n.o.RPCTimeout)
		status, answer := n.answer(ctx, kind, body)
		cancel()
		_ = c.SetWriteDeadline(time.Now().Add(n.o.RPCTimeout))
		if writeMessage(c, status, answer) != nil {
			return
		}
	}
}

func (n *Node) serveFetch(c net.Conn, body []byte) {
	d := decoder{b: body}
	name, since := string(d.readKey()), d.readBytes()
	to := patient{c, n.o.RPCTimeout}
	began := false
	begin := func(increment bool) error {
		began = true
		if increment {
			return writeMessage(to, statusDone, []byte{1})
		}
		return writeMessage(to, statusDone, []byte{0})
	}
	err := d.wrap("fetch")
	if err == nil {
		err = n.snapshots.send(n.ctx, name, since, begin, to)
	}
	if err == nil {
		return
	}
	// A stream that ends early is refused by the receiver: a backup says where it ends.
	n.logger.Warn("send checkpoint", "name", name, "error", err)
	if !began {
		_ = writeMessage(to, statusRefused, []byte(err.Error()))
	}
}

// answer does what a request asks for. It is the same for one of this node.
func (n *Node) answer(ctx context.Context, kind byte, body []byte) (status byte, answer []byte) {
	if n.Err() != nil {
		return statusNoLeader, nil
	}
	var err error
	switch kind {
	case callTerm:
		return statusDone, binary.AppendUvarint(nil, n.raft.CurrentTerm())
	case callIndex:
		var index uint64
		if index, err = n.reads.readIndex(ctx); err == nil {
			return statusDone, binary.AppendUvarint(nil, index)
		}
	case callPropose:
		var r result
		if r, err = n.propose(ctx, body); err == nil {
			return statusDone, encodeResult(r)
		}
	case callChange:
		d := decoder{b: body}
		change, id, address := d.readByte(), string(d.readKey()), string(d.readKey())
		if err = d.wrap("change"); err == nil {
			err = n.change(ctx, change, id, address)
		}
		if err == nil {
			return statusDone, nil
		}
	default:
		err = fmt.Errorf("%w: a request of kind %d", errRefused, kind)
	}
	switch {
	case errors.Is(err, errNotLeader):
		leader, _ := n.raft.LeaderWithID()
		return statusNoLeader, []byte(leader)
	case errors.Is(err, errRefused):
		return statusRefused, []byte(err.Error())
	}
	return statusUnknown, []byte(err.Error())
}

func encodeResult(r result) []byte {
	b := binary.AppendUvarint(nil, r.index)
	switch {
	case r.lost:
		return append(b, 2)
	case r.holds:
		return append(b, 1)
	}
	return append(b, 0)
}

func decodeResult(b []byte) (r result, err error) {
	d := decoder{b: b}
	r.index = d.readNumber()
	flag := d.readByte()
	r.holds, r.lost = flag == 1, flag == 2
	d.check(len(d.b) == 0 && flag <= 2, "goes on behind its end")
	return r, d.wrap("result")
}
