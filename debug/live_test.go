package debug_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/debug"
)

// load writes until the test ends.
func load(t testing.TB, ks interface{ Set(key, value []byte) error }, key func(i int) string) {
	t.Helper()
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := ks.Set([]byte(key(i)), []byte("value")); err != nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() { close(stop); done.Wait() })
}

func TestLiveTellsRatesUnderLoad(t *testing.T) {
	t.Parallel()
	db := openStore(t, brock.Options{})
	server := mount(t, debug.Handler(db))
	load(t, db, func(i int) string { return fmt.Sprint("k", i%1000) })
	type point struct {
		At                               int64
		Commits, Version, Bytes, Journal float64
		CommitP50, CommitP99             float64
	}
	var last point
	events, leave := look(t, server, "live")
	await(t, events, "points", func(data json.RawMessage) bool {
		var points []point
		if err := json.Unmarshal(data, &points); err != nil {
			t.Fatal(err)
		}
		last = points[len(points)-1]
		return last.Commits > 0
	})
	if last.Version == 0 || last.Bytes == 0 || last.Journal == 0 || last.CommitP50 == 0 || last.CommitP99 < last.CommitP50 {
		t.Errorf("%+v", last)
	}
	// A second viewer gets what is there already, but for what it has.
	leave()
	for after, want := range map[int64]bool{0: true, last.At: false} {
		events, leave := look(t, server, fmt.Sprint("live?after=", after))
		await(t, events, "points", func(data json.RawMessage) bool {
			var points []point
			if err := json.Unmarshal(data, &points); err != nil {
				t.Fatal(err)
			}
			if got := points[0].At <= last.At; got != want {
				t.Errorf("after %d: the first point is of %d, the last one seen of %d", after, points[0].At, last.At)
			}
			return true
		})
		leave()
	}
}

// Under load, what the page tells of a time adds up to what was done in it: commits, reads, conflicts by
// key, and writes by ranges of keys. Latencies are those that callers see.
func TestNumbersAddUpUnderLoad(t *testing.T) {
	t.Parallel()
	log := debug.NewLog()
	db := openStore(t, brock.Options{Durability: brock.Buffered, Events: log.Events(brock.Events{})})
	hot := makeKeyspace(t, db, "hot")
	h := debug.Handler(db, debug.Events(log))
	server := mount(t, h)
	var state struct {
		At        int64
		Metrics   map[string]float64
		Latencies map[string]struct {
			Count          int64
			Mean, P50, P99 float64
		}
	}
	live, _ := look(t, server, "live")
	await(t, live, "state", func(data json.RawMessage) bool { return json.Unmarshal(data, &state) == nil })
	heat, _ := look(t, server, "heat?ks="+b64("hot"))
	await(t, heat, "grid", func(json.RawMessage) bool { return true })
	before := state
	time.Sleep(300 * time.Millisecond) // the Watch of the heat map has begun

	var commits, conflicts, reads, writes atomic.Int64
	var took []time.Duration // of commits of one goroutine
	var done sync.WaitGroup
	end := time.Now().Add(5 * time.Second)
	work := func(fn func(i int) error) {
		done.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				if err := fn(i); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	work(func(i int) error {
		txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true})
		if err != nil {
			return err
		}
		if err := txn.In(hot).Set(fmt.Appendf(nil, "k%06d", i), make([]byte, 100)); err != nil {
			return err
		}
		began := time.Now()
		if err = txn.Commit(); err == nil {
			took = append(took, time.Since(began))
			commits.Add(1)
			writes.Add(1)
		}
		return err
	})
	for n := range 2 {
		work(func(i int) error {
			err := log.NoteConflict(db.UpdateContext(t.Context(), brock.TxnOptions{Retries: -1}, func(txn *brock.Txn) error {
				_, _ = txn.Get([]byte("contended"))
				reads.Add(1)
				time.Sleep(time.Millisecond)
				return txn.Set([]byte("contended"), fmt.Append(nil, n, i))
			}))
			if errors.Is(err, brock.ErrConflict) {
				conflicts.Add(1)
				return nil
			}
			commits.Add(1)
			return err
		})
	}
	done.Wait()

	near := func(what string, got float64, want int64, share float64) {
		t.Helper()
		if want == 0 || math.Abs(got-float64(want)) > share*float64(want) {
			t.Errorf("%s: %.1f, want %d within %.0f %%", what, got, want, 100*share)
		}
	}
	var sum struct{ commits, reads, conflicts float64 }
	at := before.At
	await(t, live, "points", func(data json.RawMessage) bool {
		var points []struct {
			At                        int64
			Commits, Reads, Conflicts float64
		}
		if err := json.Unmarshal(data, &points); err != nil {
			t.Fatal(err)
		}
		for _, p := range points {
			seconds := float64(p.At-at) / 1000
			at = p.At
			sum.commits += p.Commits * seconds
			sum.reads += p.Reads * seconds
			sum.conflicts += p.Conflicts * seconds
		}
		return points[len(points)-1].At > time.Now().UnixMilli()-200 && points[len(points)-1].Commits == 0
	})
	near("commits of all points", sum.commits, commits.Load(), 0.03)
	near("reads of all points", sum.reads, reads.Load(), 0.03)
	near("conflicts of all points", sum.conflicts, conflicts.Load(), 0.03)

	var events struct {
		Conflicts []struct {
			Key   string
			Count int64
		}
	}
	need(t, h, "events", &events)
	if len(events.Conflicts) != 1 || unb64(t, events.Conflicts[0].Key) != "contended" || events.Conflicts[0].Count != conflicts.Load() {
		t.Errorf("conflicts %+v, want %d", events.Conflicts, conflicts.Load())
	}

	need(t, h, "state", &state)
	slices.Sort(took)
	l := state.Latencies["commit_latency"]
	if state.Metrics["conflicts"] != float64(conflicts.Load()) || l.Count < commits.Load() {
		t.Errorf("%v conflicts, want %d; latencies of %d commits, want at least %d", state.Metrics["conflicts"], conflicts.Load(), l.Count, commits.Load())
	}
	// Others commit, too, and a busy machine stops a caller behind a commit: only the size is compared.
	if middle := took[len(took)/2].Seconds(); l.P50 > 4*middle || l.P50 < middle/8 || l.P99 > 2*took[len(took)-1].Seconds()+0.1 || l.Mean <= 0 {
		t.Errorf("latencies %+v, a caller has seen a median of %v", l, middle)
	}

	var seen, rows float64
	await(t, heat, "columns", func(data json.RawMessage) bool {
		var columns []struct {
			Total float64
			Rows  []float64
		}
		if err := json.Unmarshal(data, &columns); err != nil {
			t.Fatal(err)
		}
		for _, c := range columns {
			seen += c.Total * 2 // seconds of a column
			for _, r := range c.Rows {
				rows += r * 2
			}
		}
		return columns[len(columns)-1].Total == 0
	})
	near("writes of all columns", seen, writes.Load(), 0.1)
	near("writes of all rows", rows, writes.Load(), 0.2)
}

func TestHeatShowsWhereWritesGo(t *testing.T) {
	t.Parallel()
	db := openStore(t, brock.Options{})
	for i := range 2000 {
		set(t, db, fmt.Sprintf("k%04d", i), "value")
	}
	hot := makeKeyspace(t, db, "hot")
	server := mount(t, debug.Handler(db))
	load(t, db, func(i int) string { return fmt.Sprintf("k%04d", 1900+i%10) })
	load(t, hot, func(i int) string { return fmt.Sprint("q", i) })
	type column struct {
		Rows       []float64
		Total, All float64
		Keyspaces  []struct {
			Name string
			Rate float64
		}
	}
	var grid struct {
		Bounds  []string
		Columns []column
	}
	events, leave := look(t, server, "heat")
	await(t, events, "grid", func(data json.RawMessage) bool { return json.Unmarshal(data, &grid) == nil })
	if len(grid.Bounds) < 3 {
		t.Fatalf("bounds %v of 2,000 keys", grid.Bounds)
	}
	await(t, events, "columns", func(data json.RawMessage) bool {
		var columns []column
		if err := json.Unmarshal(data, &columns); err != nil {
			t.Fatal(err)
		}
		c := columns[0]
		if c.Total == 0 {
			return false
		}
		sum := 0.0
		for _, v := range c.Rows {
			sum += v
		}
		// The written keys lie in one or two rows near the end.
		warm := 0
		for i, v := range c.Rows {
			if v > 0 {
				warm++
				if i < len(c.Rows)/2 {
					t.Errorf("row %d of %d is warm: %v", i, len(c.Rows), c.Rows)
				}
			}
		}
		if warm == 0 || warm > 2 || sum < c.Total*0.5 || sum > c.Total*2 || c.All < c.Total || len(c.Keyspaces) != 2 {
			t.Errorf("%+v", c)
		}
		return true
	})
	// A second viewer sees the columns that are there, of another keyspace, and a part of the keys.
	for _, query := range []string{"?ks=" + b64("hot"), "?lo=" + b64("k1900") + "&hi=" + b64("k1905")} {
		second, leave := look(t, server, "heat"+query)
		await(t, second, "grid", func(data json.RawMessage) bool {
			if err := json.Unmarshal(data, &grid); err != nil || len(grid.Columns) == 0 {
				t.Errorf("heat%s: %v %s", query, err, data)
			}
			return true
		})
		leave()
	}
	// When the one who watches leaves, another goes on.
	third, _ := look(t, server, "heat")
	await(t, third, "grid", func(json.RawMessage) bool { return true })
	leave()
	await(t, third, "columns", func(data json.RawMessage) bool {
		var columns []column
		return json.Unmarshal(data, &columns) == nil && columns[0].Total > 0
	})
	if n := db.Metrics().Tree.WatchesRefused; n != 0 {
		t.Errorf("%d Watches were refused: the page must not look like a slow consumer", n)
	}
}

// A follower watches a part of the time only, and its rates are right all the same.
func TestHeatOfAFollower(t *testing.T) {
	t.Parallel()
	writer := openStore(t, brock.Options{Durability: brock.Buffered})
	set(t, writer, "k", "v")
	db := openStore(t, brock.Options{Dir: writer.Options().Dir, Mode: brock.Follow})
	server := mount(t, debug.Handler(db))
	var written atomic.Int64
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			if err := writer.Set(fmt.Appendf(nil, "k%04d", i%1000), nil); err != nil {
				t.Error(err)
				return
			}
			written.Add(1)
		}
	})
	defer func() { close(stop); done.Wait() }()
	events, _ := look(t, server, "heat")
	began, before, n, sum := time.Now(), written.Load(), 0, 0.0
	await(t, events, "columns", func(data json.RawMessage) bool {
		var columns []struct{ Total float64 }
		if err := json.Unmarshal(data, &columns); err != nil {
			t.Fatal(err)
		}
		for _, c := range columns {
			sum += c.Total
			n++
		}
		return n >= 3
	})
	rate, want := sum/float64(n), float64(written.Load()-before)/time.Since(began).Seconds()
	if rate < want*0.6 || rate > want*1.4 {
		t.Errorf("%.0f writes a second, want %.0f", rate, want)
	}
}

func TestActionsNeedThePageAndTheOption(t *testing.T) {
	db := openStore(t, brock.Options{})
	set(t, db, "a", "1", "a", "2")
	post := func(query string, header ...string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/debug/brock/action?"+query, nil)
		r.Header.Set("X-Brock-Action", "1")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return r
	}
	checkFailure(t, debug.Handler(db), post("do=compact"), http.StatusForbidden, "forbidden")
	h := debug.Handler(db, debug.Actions())
	bare := post("do=compact")
	bare.Header.Del("X-Brock-Action")
	checkFailure(t, h, bare, http.StatusForbidden, "foreign")
	checkFailure(t, h, post("do=compact", "Sec-Fetch-Site", "cross-site"), http.StatusForbidden, "foreign")
	checkFailure(t, h, post("do=compact", "Sec-Fetch-Site", "same-site"), http.StatusForbidden, "foreign")
	checkFailure(t, h, post("do=compact", "Origin", "http://evil.example"), http.StatusForbidden, "foreign")
	checkFailure(t, h, post("do=drop"), http.StatusBadRequest, "invalid")
	checkFailure(t, h, post("do=delete"), http.StatusBadRequest, "invalid")

	type result struct {
		Done     string
		Found    int
		Problems []struct{ File string }
	}
	for _, do := range []string{"compact", "reclaim", "verify"} {
		var res result
		if status := request(t, h, post("do="+do, "Sec-Fetch-Site", "same-origin"), &res); status != http.StatusOK || res.Done != do || res.Found != 0 {
			t.Errorf("%s: %d %+v", do, status, res)
		}
	}
	if db.Metrics().Tree.Compactions+db.Metrics().Tree.Flushes == 0 {
		t.Error("nothing was compacted")
	}
	// A key goes only as it was shown.
	var p keyPage
	need(t, h, "keys", &p)
	version := p.Keys[0].Version
	checkFailure(t, h, post(fmt.Sprintf("do=delete&key=%s&version=%d", b64("a"), version+1)), http.StatusConflict, "changed")
	var res result
	if status := request(t, h, post(fmt.Sprintf("do=delete&key=%s&version=%d", b64("a"), version)), &res); status != http.StatusOK {
		t.Errorf("delete: %d", status)
	}
	if found, err := db.Has([]byte("a")); found || err != nil {
		t.Errorf("the key is there: %v %v", found, err)
	}
}

func TestActionsOfAReaderAreRefused(t *testing.T) {
	writer := openStore(t, brock.Options{})
	set(t, writer, "a", "1")
	db := openStore(t, brock.Options{Dir: writer.Options().Dir, Mode: brock.Follow})
	h := debug.Handler(db, debug.Actions())
	for do, status := range map[string]int{"compact": http.StatusConflict, "reclaim": http.StatusConflict, "delete&key=" + b64("a") + "&version=1": http.StatusConflict, "verify": http.StatusOK} {
		r := httptest.NewRequest(http.MethodPost, "/debug/brock/action?do="+do, nil)
		r.Header.Set("X-Brock-Action", "1")
		var v any
		if got := request(t, h, r, &v); got != status {
			t.Errorf("%s: %d %v", do, got, v)
		}
	}
}

func TestLogKeepsTheNewestEvents(t *testing.T) {
	log := debug.NewLog()
	flushed := make(chan brock.WorkInfo, 10)
	db := openStore(t, brock.Options{Events: log.Events(brock.Events{Flush: func(w brock.WorkInfo) { flushed <- w }})})
	set(t, db, "a", "1")
	if err := db.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-flushed: // the function of the program is called, too
	case <-time.After(time.Minute):
		t.Fatal("no flush was told")
	}
	type page struct {
		Events []struct {
			Kind, Text string
			Bad        bool
		}
		Conflicts []struct {
			Keyspace, Key string
			Range         bool
			Count, Runs   int64
		}
		Missed int64
	}
	var p page
	h := debug.Handler(db, debug.Events(log))
	need(t, h, "events", &p)
	if len(p.Events) != 1 || p.Events[0].Kind != "flush" || p.Events[0].Bad {
		t.Errorf("%+v", p)
	}
	// All kinds, and no more than 200.
	e := log.Events(brock.Events{})
	for range 100 {
		e.Compaction(brock.WorkInfo{Reason: "r"})
		e.WriteStall(brock.StallInfo{Begin: true, Reason: "garbage"})
	}
	e.Collection(brock.WorkInfo{Reason: "r", Err: errors.New("broken")})
	e.Spill(brock.WorkInfo{})
	e.DiskSpace(brock.DiskSpaceInfo{Full: true, Left: -1, Err: brock.ErrNoSpace})
	e.Corruption(&brock.CorruptionError{File: "000001.run", Reason: "wrong checksum"})
	e.Loss(brock.Loss{Version: 7})
	e.BackgroundError(brock.ErrStopped)
	e.Leak(brock.LeakInfo{Begun: "main.go:1"})
	e.LongReader(brock.ReaderInfo{Begun: "main.go:2", For: time.Minute})
	p = page{}
	need(t, h, "events", &p)
	bad := 0
	for _, e := range p.Events[:8] {
		if e.Bad {
			bad++
		}
	}
	if len(p.Events) != 200 || p.Events[0].Kind != "reader" || bad != 7 { // all but the spill
		t.Errorf("%d events, the newest %+v, %d of 8 bad", len(p.Events), p.Events[0], bad)
	}
	// Without a Log there is nothing, and no error.
	need(t, debug.Handler(db), "events", &p)
	if len(p.Events) != 0 {
		t.Errorf("%+v", p)
	}
}

func TestConflictsAreCountedByKey(t *testing.T) {
	db := openStore(t, brock.Options{})
	set(t, db, "hot", "0")
	log := debug.NewLog()
	for i := range 3 {
		txn, err := db.Begin(t.Context(), brock.TxnOptions{Update: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := txn.Get([]byte("hot")); err != nil {
			t.Fatal(err)
		}
		set(t, db, "hot", fmt.Sprint(i))
		if err := txn.Set([]byte("other"), nil); err != nil {
			t.Fatal(err)
		}
		if err := log.NoteConflict(txn.Commit()); !errors.Is(err, brock.ErrConflict) {
			t.Fatalf("no conflict: %v", err)
		}
	}
	if log.NoteConflict(nil) != nil || log.NoteConflict(brock.ErrClosed) != brock.ErrClosed {
		t.Error("another error is not passed on")
	}
	// More keys than find room: the busy one stays.
	for i := range 300 {
		_ = log.NoteConflict(&brock.ConflictError{Keyspace: "x", Key: fmt.Append(nil, i), Runs: 1})
	}
	_ = log.NoteConflict(&brock.ConflictError{Lower: []byte("a"), Runs: 1})
	var p struct {
		Conflicts []struct {
			Keyspace, Key, Lower string
			Range                bool
			Count, Runs          int64
		}
		Missed int64
	}
	need(t, debug.Handler(db, debug.Events(log)), "events", &p)
	if len(p.Conflicts) != 100 || unb64(t, p.Conflicts[0].Key) != "hot" || p.Conflicts[0].Count != 3 || p.Missed != 202 {
		t.Errorf("%d conflicts, first %+v, missed %d", len(p.Conflicts), p.Conflicts[0], p.Missed)
	}
}

// Damage is what a verify is for: it is a result with its places, not a failure.
func TestVerifyTellsDamage(t *testing.T) {
	dir := t.TempDir()
	db, err := brock.Open(brock.Options{Dir: dir, Durability: brock.Buffered})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		set(t, db, fmt.Sprintf("k%05d", i), "value")
	}
	if err := errors.Join(db.Flush(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
	runs, err := filepath.Glob(filepath.Join(dir, "*.run"))
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	data, err := os.ReadFile(runs[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0xff
	if err := os.WriteFile(runs[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	h := debug.Handler(openStore(t, brock.Options{Dir: dir}), debug.Actions(), debug.Values())
	r := httptest.NewRequest(http.MethodPost, "/debug/brock/action?do=verify", nil)
	r.Header.Set("X-Brock-Action", "1")
	var res struct {
		Found    int
		Problems []struct{ File, Text string }
	}
	if status := request(t, h, r, &res); status != http.StatusOK || res.Found == 0 || len(res.Problems) == 0 || !strings.HasSuffix(res.Problems[0].File, ".run") || res.Problems[0].Text == "" {
		t.Errorf("%d %+v", status, res)
	}
	// Answers that meet the damage say so, and none panics.
	damaged := 0
	for _, name := range []string{"keys?limit=500", "keys?limit=500&end=last", "sizes", "shape", "history?key=" + b64("k01000"), "value?key=" + b64("k01000")} {
		var f struct{ Error, Code string }
		switch status := ask(t, h, name, &f); {
		case status == http.StatusInternalServerError && f.Code == "damaged":
			damaged++
		case status != http.StatusOK:
			t.Errorf("%s: %d %+v", name, status, f)
		}
	}
	if damaged == 0 {
		t.Error("no answer has met the damage")
	}
}
