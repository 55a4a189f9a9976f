package replicated

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// answering is a connection whose answer comes at the moment at which the context ends.
type answering struct {
	net.Conn
	answer *bytes.Buffer
	cancel func()
	closed bool
}

func (a *answering) Write(p []byte) (int, error)      { return len(p), nil }
func (a *answering) SetDeadline(time.Time) error      { return nil }
func (a *answering) SetWriteDeadline(time.Time) error { return nil }

func (a *answering) Read(p []byte) (int, error) {
	a.cancel()
	return a.answer.Read(p)
}

func (a *answering) Close() error {
	a.closed = true
	return nil
}

// TestAnswerAsTheContextEnds: an answer that has come counts. Without it, and without an error, a
// command that was done would be taken for one that was not sent.
func TestAnswerAsTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	answer := new(bytes.Buffer)
	must(t, writeMessage(answer, statusDone, encodeResult(result{index: 7, holds: true})))
	c := &answering{answer: answer, cancel: cancel}
	p := &peers{timeout: time.Minute, connect: time.Minute, idle: map[raft.ServerAddress][]net.Conn{}, busy: map[net.Conn]raft.ServerAddress{}}
	p.dial = func(raft.ServerAddress, time.Duration) (net.Conn, error) { return c, nil }
	status, body, err := p.call(ctx, "n1", callPropose, nil)
	if err != nil || status != statusDone {
		t.Fatalf("status %d, %v", status, err)
	}
	if r, err := decodeResult(body); err != nil || r.index != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	if !c.closed || len(p.idle["n1"]) > 0 {
		t.Error("the connection is used again")
	}
}

// TestDropEndsCalls drops a node while a call to it has no answer.
func TestDropEndsCalls(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	p := &peers{timeout: time.Minute, connect: time.Minute, idle: map[raft.ServerAddress][]net.Conn{}, busy: map[net.Conn]raft.ServerAddress{}}
	p.dial = func(raft.ServerAddress, time.Duration) (net.Conn, error) { return near, nil }
	ended := make(chan error, 1)
	go func() {
		_, _, err := p.call(context.Background(), "n1", callTerm, nil)
		ended <- err
	}()
	if _, _, err := readMessage(far); err != nil {
		t.Fatal(err)
	}
	p.drop("n1")
	if err := <-ended; err == nil {
		t.Error("a call without an answer has no error")
	}
}
