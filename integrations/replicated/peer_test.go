package replicated

import (
	"bytes"
	"context"
	"errors"
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

// TestCommandIsNotSentAgain gives a command to a connection that was idle and breaks. It may have
// arrived, so the caller must get an error, and no answer to a second attempt.
func TestCommandIsNotSentAgain(t *testing.T) {
	dials := 0
	p := &peers{timeout: time.Minute, connect: time.Minute, idle: map[raft.ServerAddress][]net.Conn{}, busy: map[net.Conn]raft.ServerAddress{}}
	p.dial = func(raft.ServerAddress, time.Duration) (net.Conn, error) {
		dials++
		answer := new(bytes.Buffer)
		must(t, writeMessage(answer, statusNoLeader, nil))
		return &answering{answer: answer, cancel: func() {}}, nil
	}
	broken := func() net.Conn { return &answering{answer: new(bytes.Buffer), cancel: func() {}} }
	p.idle["n1"] = []net.Conn{broken()}
	if _, _, err := p.call(context.Background(), "n1", callPropose, nil); err == nil || errors.Is(err, errNotSent) || dials > 0 {
		t.Errorf("a command on a connection that breaks: %v, %d dials", err, dials)
	}
	p.idle["n1"] = []net.Conn{broken(), broken()}
	if status, _, err := p.call(context.Background(), "n1", callTerm, nil); err != nil || status != statusNoLeader || dials != 1 {
		t.Errorf("a question on connections that break: status %d, %v, %d dials", status, err, dials)
	}
}
