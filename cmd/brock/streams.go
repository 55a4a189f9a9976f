package main

import (
	"context"
	"io"
	"sync"
)

// input is a stream that ends with an error when ctx ends, even while a read of the terminal or
// pipe behind it waits. It reads nothing before the first Read: a shell's loop may need it.
type input struct {
	ctx   context.Context
	from  io.Reader
	begin sync.Once
	pipe  *io.PipeReader
}

// Read reads what is behind the stream, up to 1 MB ahead.
func (i *input) Read(p []byte) (int, error) {
	i.begin.Do(func() {
		r, w := io.Pipe()
		i.pipe = r
		context.AfterFunc(i.ctx, func() { _ = w.CloseWithError(context.Cause(i.ctx)) })
		go func() {
			// A file has a copying of its own, in small pieces.
			_, err := io.CopyBuffer(w, struct{ io.Reader }{i.from}, make([]byte, 1<<20))
			_ = w.CloseWithError(err) // nil is the end
		}()
	})
	return i.pipe.Read(p)
}

// output is standard output. A command may leave the errors of its writes to it: run returns the
// first one, so that a script doesn't take an empty file on a full disk for a result.
type output struct {
	to     io.Writer
	failed error
}

// Write is called by one goroutine at a time.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil && o.failed == nil {
		o.failed = err
	}
	return n, err
}
