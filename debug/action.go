package debug

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/brockdb/brock"
)

// actionHeader is what the page sends with an action. A form or image of another page can't, and its
// script may not ask without the consent of the server, which never gives it.
const actionHeader = "X-Brock-Action"

// maxProblems is how many damaged places an answer lists.
const maxProblems = 100

var errActing = errors.New("another action is at work")

// foreign refuses what a page of another origin sends.
var foreign = http.NewCrossOriginProtection()

// action does something to a store.
type action struct {
	reads bool // it writes nothing: a store that is only read can do it, too
	do    func(h *handler, ctx context.Context, q *query, res *result) error
}

// result is what an action has done.
type result struct {
	Done     string    `json:"done"`
	Took     int64     `json:"took"`            // milliseconds
	Freed    int64     `json:"freed,omitempty"` // bytes, of a reclaim
	Problems []problem `json:"problems,omitempty"`
	Found    int       `json:"found,omitempty"` // problems, also those that are not listed
}

// problem is a damaged place.
type problem struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
	Follow bool   `json:"followUp,omitempty"`
}

// actionNames has the actions in the order of the page.
var actionNames = []string{"verify", "compact", "reclaim", "delete"}

var actions = map[string]action{
	"compact": {do: func(h *handler, ctx context.Context, _ *query, _ *result) error { return h.db.Compact(ctx) }},
	"reclaim": {do: func(h *handler, ctx context.Context, _ *query, res *result) (err error) {
		res.Freed, err = h.db.Reclaim(ctx)
		return err
	}},
	"verify": {reads: true, do: verify},
	"delete": {do: deleteKey},
}

// allowedActions lists the actions that the page may ask for.
func (h *handler) allowedActions() []string {
	allowed := []string{}
	if !h.actions {
		return allowed
	}
	for _, name := range actionNames {
		if actions[name].reads || h.db.Options().Mode == brock.ReadWrite {
			allowed = append(allowed, name)
		}
	}
	return allowed
}

// act carries out an action, and answers when it is done. It ends early if the client goes.
func (h *handler) act(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		writeError(w, http.StatusMethodNotAllowed, "method", "an action is a POST")
		return
	}
	if err := foreign.Check(r); err != nil || r.Header.Get(actionHeader) == "" {
		writeError(w, http.StatusForbidden, "foreign", "an action comes from the page itself, with the header "+actionHeader)
		return
	}
	if !h.actions {
		writeError(w, http.StatusForbidden, "forbidden", "the program that serves this page has not given debug.Actions")
		return
	}
	q := queryOf(r)
	a, known := actions[q.Get("do")]
	if q.err == nil && !known {
		q.err = faultf("do is one of %v", actionNames)
	}
	err := q.err
	if err == nil {
		err = h.checkOpen()
	}
	if err == nil && !h.acting.TryLock() {
		err = errActing
	}
	if err != nil {
		writeFailure(w, err)
		return
	}
	defer h.acting.Unlock()
	// It may take longer than a server's WriteTimeout allows. Not every ResponseWriter has deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	res, begin := &result{Done: q.Get("do")}, time.Now()
	if err := a.do(h, r.Context(), q, res); err != nil {
		writeFailure(w, err)
		return
	}
	res.Took = time.Since(begin).Milliseconds()
	writeJSON(w, http.StatusOK, res)
}

// verify reads every file. Damage is a result, not a failure.
func verify(h *handler, ctx context.Context, _ *query, res *result) error {
	err := h.db.Verify(ctx, func(c *brock.CorruptionError) {
		if res.Found++; res.Found > maxProblems {
			return
		}
		res.Problems = append(res.Problems, problem{c.File, c.Offset, c.Error(), c.FollowUp})
	})
	if errors.Is(err, brock.ErrCorrupt) {
		return nil
	}
	return err
}

// deleteKey deletes a key, if it still has the version that the page has shown.
func deleteKey(h *handler, _ context.Context, q *query, _ *result) error {
	key, version := q.bytes("key"), q.version("version")
	ks, err := h.keyspace(q)
	switch {
	case err != nil:
		return err
	case key == nil || version == 0:
		return faultf("key and version say what is deleted")
	}
	if err := ks.CompareAndDelete(key, version); err != nil {
		return fmt.Errorf("the key was not deleted: %w", err)
	}
	return nil
}
