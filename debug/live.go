package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

var errStreams = fmt.Errorf("%d pages look already: close some", maxStreams)

// streamDeadline is how long a client may take for one message.
const streamDeadline = 20 * time.Second

// events is an open event stream.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// stream answers with events that fn sends, until the client goes. What fn returns becomes the last
// event, "end", unless the client has gone.
func (h *handler) stream(w http.ResponseWriter, r *http.Request, fn func(context.Context, *query, *eventStream) error) {
	if h.streams.Add(1) > maxStreams {
		h.streams.Add(-1)
		writeFailure(w, errStreams)
		return
	}
	defer h.streams.Add(-1)
	if err := h.checkOpen(); err != nil {
		writeFailure(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy in front must pass events on at once
	w.WriteHeader(http.StatusOK)
	s := &eventStream{w, http.NewResponseController(w)}
	if err := fn(r.Context(), queryOf(r), s); err != nil && r.Context().Err() == nil {
		_ = s.send("end", failure{failureText(err), codeOf(err)}) // the client has gone
	}
}

// codeOf returns the code of an error.
func codeOf(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.is) {
			return c.code
		}
	}
	return "failed"
}

// send writes one event.
func (s *eventStream) send(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	// A server's WriteTimeout would end the stream, and without any a client that reads nothing
	// would hold it for ever. Not every ResponseWriter has deadlines.
	_ = s.control.SetWriteDeadline(time.Now().Add(streamDeadline))
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data); err != nil {
		return err
	}
	return s.control.Flush()
}

// live sends the state and the points since, first those that are there already.
func (h *handler) live(ctx context.Context, q *query, s *eventStream) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	sent := int64(q.version("after"))
	if q.err != nil {
		return q.err
	}
	for {
		if err := h.checkOpen(); err != nil {
			return err
		}
		m, at, err := h.samples.sample(ctx)
		if err != nil {
			return err
		}
		if err := s.send("state", h.stateOf(&m, at)); err != nil {
			return err
		}
		if points := h.samples.after(sent); len(points) > 0 {
			if err := s.send("points", points); err != nil {
				return err
			}
			sent = points[len(points)-1].At
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
