package debug

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/brockdb/brock"
)

// binary is bytes that JSON has as base64url without padding: keys and names may be any bytes.
type binary []byte

// MarshalText returns the base64url form.
func (b binary) MarshalText() ([]byte, error) {
	return base64.RawURLEncoding.AppendEncode(nil, b), nil
}

// fault is an error of the request.
type fault struct{ text string }

func (f fault) Error() string        { return f.text }
func (f fault) Is(target error) bool { return target == brock.ErrInvalid }

// faultf returns an error that the client has caused.
func faultf(format string, args ...any) error { return fault{fmt.Sprintf(format, args...)} }

// failure is how an error is answered.
type failure struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

// codes say how errors are answered; the first that fits counts.
var codes = []struct {
	is     error
	status int
	code   string
}{
	{brock.ErrClosed, http.StatusServiceUnavailable, "closed"},
	{brock.ErrKeyNotFound, http.StatusNotFound, "absent"},
	{brock.ErrKeyspaceNotFound, http.StatusNotFound, "absent"},
	{brock.ErrVersionGone, http.StatusGone, "gone"},
	{brock.ErrCorrupt, http.StatusInternalServerError, "damaged"},
	{brock.ErrStopped, http.StatusConflict, "stopped"},
	{brock.ErrReadOnly, http.StatusConflict, "readonly"},
	{brock.ErrVersionMismatch, http.StatusConflict, "changed"},
	{brock.ErrNoSpace, http.StatusInsufficientStorage, "full"},
	{errHidden, http.StatusForbidden, "hidden"},
	{errStreams, http.StatusServiceUnavailable, "busy"},
	{errActing, http.StatusConflict, "busy"},
	{context.Canceled, http.StatusServiceUnavailable, "cancelled"},
	{brock.ErrInvalid, http.StatusBadRequest, "invalid"},
	{brock.ErrUnsupported, http.StatusConflict, "unsupported"},
}

// writeFailure answers with an error.
func writeFailure(w http.ResponseWriter, err error) {
	for _, c := range codes {
		if errors.Is(err, c.is) {
			writeError(w, c.status, c.code, failureText(err))
			return
		}
	}
	writeError(w, http.StatusInternalServerError, "failed", err.Error())
}

// failureText is the text of an error for a reader of the page.
func failureText(err error) string {
	if errors.Is(err, brock.ErrClosed) && !errors.Is(err, errNoStore) {
		return "the store is closed"
	}
	return err.Error()
}

func writeError(w http.ResponseWriter, status int, code, text string) {
	writeJSON(w, status, failure{text, code})
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil { // what a decoder returned was marshalled before, so this is a fault of ours
		status, data = http.StatusInternalServerError, []byte(`{"error":"the answer can't be written as JSON","code":"failed"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // the client has gone
}

// query reads the parameters of a request. The first error stays.
type query struct {
	url.Values
	err error
}

func queryOf(r *http.Request) *query {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		err = faultf("the query can't be read: %v", err)
	}
	return &query{v, err}
}

// bytes returns a parameter in base64url; nil if it is not there.
func (q *query) bytes(name string) []byte {
	if !q.Has(name) {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.Get(name))
	if err != nil && q.err == nil {
		q.err = faultf("%s is not base64url", name)
	}
	if b == nil {
		b = []byte{}
	}
	return b
}

// number returns a parameter from least to most, or a default.
func (q *query) number(name string, usual, least, most int) int {
	if !q.Has(name) {
		return usual
	}
	n, err := strconv.Atoi(q.Get(name))
	if (err != nil || n < least || n > most) && q.err == nil {
		q.err = faultf("%s is from %d to %d", name, least, most)
	}
	return n
}

// version returns a parameter that is a version; 0 if it is not there.
func (q *query) version(name string) uint64 {
	if !q.Has(name) {
		return 0
	}
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil && q.err == nil {
		q.err = faultf("%s is not a version", name)
	}
	return n
}

// choice returns a parameter that is one of some words; the first is the default.
func (q *query) choice(name string, words ...string) string {
	if !q.Has(name) {
		return words[0]
	}
	for _, w := range words {
		if q.Get(name) == w {
			return w
		}
	}
	if q.err == nil {
		q.err = faultf("%s is one of %v", name, words)
	}
	return words[0]
}

// keyspace returns the keyspace that ks names, and never makes one.
func (h *handler) keyspace(q *query) (*brock.Keyspace, error) {
	name := string(q.bytes("ks"))
	if q.err != nil {
		return nil, q.err
	}
	return h.findKeyspace(name)
}

// findKeyspace returns a keyspace that is there. DB.Keyspace would make a missing one.
func (h *handler) findKeyspace(name string) (*brock.Keyspace, error) {
	if name == "" {
		return h.db.Default(), nil
	}
	for ks := range h.db.Keyspaces() {
		if ks.Name() == name {
			return ks, nil
		}
	}
	return nil, brock.ErrKeyspaceNotFound
}

// view reads a keyspace at its newest version, or at the one given.
func (h *handler) view(ctx context.Context, ks *brock.Keyspace, at uint64, fn func(*brock.Txn) error) error {
	if _, err := h.db.Refresh(ctx); err != nil { // of a follower: else the page would stand still
		return err
	}
	return ks.ViewContext(ctx, brock.TxnOptions{ReadAt: at}, fn)
}

// milliseconds returns a time for JSON; 0 = none.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
