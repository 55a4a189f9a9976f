package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/debug"
)

type uiCommand struct {
	readable
	Port     int  `help:"Port on the loopback address; 0 = any that is free." default:"0"`
	NoValues bool `help:"Show no values, also when they are asked for."`
}

// Run serves the page until the program is interrupted. It follows the store: the program that has it
// open goes on, and others can open it meanwhile.
func (c *uiCommand) Run(a *app) error {
	if c.Port < 0 || c.Port > 65535 {
		return wrongUsage("--port is from 0 to 65535")
	}
	serve := func(db *brock.DB) error { return c.serve(a, db) }
	if c.UpTo {
		return c.read(a, serve)
	}
	return c.copied(a, serve)
}

// serve listens on the loopback address only, and prints the address of the page.
func (c *uiCommand) serve(a *app, db *brock.DB) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	name := c.Dir
	if full, err := filepath.Abs(c.Dir); err == nil {
		name = full
	}
	// Verify is the only action that a follower can do.
	options := []debug.Option{debug.Title(filepath.Base(name)), debug.Actions()}
	if !c.NoValues {
		options = append(options, debug.Values())
	}
	g := &guard{token: rand.Text(), port: listener.Addr().(*net.TCPAddr).Port, next: debug.Handler(db, options...)}
	server := &http.Server{
		Handler:           g,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return a.ctx }, // ends the streams of open pages
	}
	if _, err := fmt.Fprintf(a.out, "http://%s/%s/\n", listener.Addr(), g.token); err != nil {
		return err
	}
	fmt.Fprintln(a.err, "brock: whoever has this address can read the store; Ctrl-C ends it")
	defer context.AfterFunc(a.ctx, func() { _ = server.Close() })()
	defer server.Close()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// guard lets requests through that know the token, which is the first part of the path, and that ask
// for this machine by a name of the loopback address. Else any page in the browser could have its
// own host name lead here (DNS rebinding).
type guard struct {
	token string
	port  int
	next  http.Handler
}

// ServeHTTP refuses, or passes on.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil || port != strconv.Itoa(g.port) || host != "127.0.0.1" && host != "localhost" {
		http.Error(w, "this is not the host that was asked for", http.StatusMisdirectedRequest)
		return
	}
	token, _, inside := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !inside || subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) != 1 {
		http.Error(w, "the address is wrong: brock ui has printed the right one", http.StatusNotFound)
		return
	}
	g.next.ServeHTTP(w, r)
}
