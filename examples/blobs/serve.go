package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/objects"
)

// handler serves the blobs:
//
//	POST   /        stores the body, and says where
//	GET    /        lists the blobs, as the command does
//	GET    /DIGEST  the content, or ranges of it
//	DELETE /DIGEST  takes a reference away
func (s *shelf) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{$}", s.handlePost)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { answer(w, s.listBlobs(r.Context(), w)) })
	mux.HandleFunc("GET /{digest}", s.handleGet)
	mux.HandleFunc("DELETE /{digest}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.deleteBlobs(r.Context(), []string{r.PathValue("digest")}, w))
	})
	return mux
}

func (s *shelf) handlePost(w http.ResponseWriter, r *http.Request) {
	// Size makes a body that ends early an error, whatever its reader says. A body can't be read
	// twice, so this is an Upload and not a Put in an Update, which may run again.
	o := objects.PutOptions{Type: r.Header.Get("Content-Type"), Size: max(r.ContentLength, 0)}
	info, err := s.blobs.Upload(r.Context(), r.Body, o, nil)
	if err != nil {
		answer(w, err)
		return
	}
	w.Header().Set("Location", "/"+info.Digest.String())
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintln(w, info.Digest, info.Size)
}

func (s *shelf) handleGet(w http.ResponseWriter, r *http.Request) {
	d, err := objects.ParseDigest(r.PathValue("digest"))
	if err != nil {
		answer(w, err)
		return
	}
	// The transaction stays open until the client has read all. It keeps old files until then, and
	// blocks nobody.
	answer(w, s.db.ViewContext(r.Context(), brock.TxnOptions{}, func(txn *brock.Txn) error {
		o, err := s.blobs.Open(txn, d)
		if err != nil {
			return err
		}
		info := o.Info()
		w.Header().Set("ETag", `"`+info.Digest.String()+`"`)
		if info.Type != "" {
			w.Header().Set("Content-Type", info.Type)
		}
		// It reads by Read and Seek, so ranges cost only the parts that they touch.
		http.ServeContent(w, r, "", info.Time, o)
		return nil
	}))
}

// answer sends an error, if there is one.
func answer(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
	case errors.Is(err, brock.ErrKeyNotFound):
		http.Error(w, "there is no such blob", http.StatusNotFound)
	case errors.Is(err, brock.ErrInvalid), errors.Is(err, io.ErrUnexpectedEOF):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, brock.ErrNoSpace):
		http.Error(w, "the disk is full", http.StatusInsufficientStorage)
	default:
		log.Print(err)
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}

// serve answers requests until ctx ends, and then those that have begun.
func serve(ctx context.Context, s *shelf, addr string, out io.Writer) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "serving http://%s\n", listener.Addr())
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return server.Shutdown(wait)
}
