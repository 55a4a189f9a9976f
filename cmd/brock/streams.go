package main

import (
	"context"
	"io"
	"sync"
)

// input is standard input. A Read returns an error when ctx ends, even while the terminal or pipe
// has nothing to read. It takes nothing from there before the first Read: in a loop of a shell,
// the next command may need it.
type input struct {
	ctx   context.Context
	from  io.Reader
	begin sync.Once
	pipe  *io.PipeReader
}

// Read reads up to 1 MB ahead.
func (i *input) Read(p []byte) (int, error) {
	i.begin.Do(func() {
		r, w := io.Pipe()
		i.pipe = r
		context.AfterFunc(i.ctx, func() { _ = w.CloseWithError(context.Cause(i.ctx)) })
		go func() {
			// Hide WriteTo of a file, which copies in small pieces.
			_, err := io.CopyBuffer(w, struct{ io.Reader }{i.from}, make([]byte, 1<<20))
			_ = w.CloseWithError(err) // nil is the end
		}()
	})
	return i.pipe.Read(p)
}

// output is standard output. It keeps the first error of a write, and run returns that. So a
// command may ignore such errors, and a script doesn't take an empty file on a full disk for a
// result.
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
