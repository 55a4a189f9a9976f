package metamorphic

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/brockdb/brock"
)

// marker is a key that every commit writes: its value is the number of the commit.
const marker = "~commit"

// write is one write of a commit.
type write struct {
	key, value string
	del        bool
	upper      string // with del: delete all keys key <= k < upper
	ttl        time.Duration
}

func put(key, value string) write { return write{key: key, value: value} }

func del(key string) write { return write{key: key, del: true} }

func delRange(lo, hi string) write { return write{key: lo, upper: hi, del: true} }

func fading(key, value string, ttl time.Duration) write {
	return write{key: key, value: value, ttl: ttl}
}

// fate is what the client knows about a commit.
type fate uint8

const (
	pending fate = iota // not answered yet
	acked               // done
	unknown             // it failed: it may be there or not
	refused             // it failed, and the store went on without it
)

type commit struct {
	writes []write
	at     int64 // when it was made, Unix milliseconds
	fate   fate
}

// ledger is the list of commits that one client has asked for, one after the other,
// and what the store has promised about each.
type ledger struct {
	mu      sync.Mutex
	commits []commit
	created bool  // an Open succeeded
	safe    int   // commits that survive a loss of power
	now     int64 // of the stepped clock, Unix milliseconds
}

func newLedger() *ledger { return &ledger{now: 1_700_000_000_000} }

func (l *ledger) clock() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.UnixMilli(l.now)
}

func (l *ledger) tick(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now += d.Milliseconds()
}

// begin adds a commit and returns its number, from 1.
func (l *ledger) begin(writes []write) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.commits) + 1
	l.commits = append(l.commits, commit{writes: append(writes, put(marker, strconv.Itoa(n))), at: l.now})
	return n
}

// end notes the fate of commit n.
func (l *ledger) end(n int, f fate, synced bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits[n-1].fate = f
	if f != acked {
		return
	}
	for i := range l.commits[:n] {
		if l.commits[i].fate == unknown {
			l.commits[i].fate = refused
		}
	}
	if synced {
		l.safe = n
	}
}

// resolve notes that a store was opened and that commit n is its last.
func (l *ledger) resolve(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.commits {
		if c := &l.commits[i]; c.fate == unknown {
			c.fate = refused
			if i+1 == n {
				c.fate = acked
			}
		}
	}
}

// saved notes that all acknowledged commits survive a loss of power.
func (l *ledger) saved() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range l.commits {
		if c.fate == acked {
			l.safe = i + 1
		}
	}
}

// promise is what must hold for a store after a crash.
type promise struct {
	created bool
	safe    int // commits that survive a loss of power
	acked   int // commits that survive the death of the process
	asked   int // commits that were asked for: no more can be there
	now     int64
}

func (l *ledger) promise() promise {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := promise{created: l.created, safe: l.safe, asked: len(l.commits), now: l.now}
	for i, c := range l.commits {
		if c.fate == acked {
			p.acked = i + 1
		}
	}
	return p
}

// state returns what is visible after the first n commits, at the time now.
func (l *ledger) state(n int, now int64) map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	type value struct {
		text    string
		expires int64
	}
	all := map[string]value{}
	for _, c := range l.commits[:n] {
		if c.fate == refused {
			continue
		}
		for _, w := range c.writes {
			switch {
			case w.upper != "":
				maps.DeleteFunc(all, func(k string, _ value) bool { return w.key <= k && k < w.upper })
			case w.del:
				delete(all, w.key)
			case w.ttl > 0:
				all[w.key] = value{w.value, c.at + w.ttl.Milliseconds()}
			default:
				all[w.key] = value{text: w.value}
			}
		}
	}
	out := map[string]string{}
	for k, v := range all {
		if v.expires == 0 || v.expires > now {
			out[k] = v.text
		}
	}
	return out
}

// dump reads everything that a store shows, in both directions and by key.
func dump(db *brock.DB) (map[string]string, error) {
	out, back := map[string]string{}, map[string]string{}
	err := db.View(func(txn *brock.Txn) error {
		for item, err := range txn.All() {
			if err != nil {
				return fmt.Errorf("iterate: %w", err)
			}
			v, err := item.Value()
			if err != nil {
				return fmt.Errorf("value of %.40q: %w", item.Key(), err)
			}
			out[string(item.Key())] = string(v)
		}
		for item, err := range txn.Items(brock.IteratorOptions{Reverse: true, KeysOnly: true}) {
			if err != nil {
				return fmt.Errorf("iterate back: %w", err)
			}
			back[string(item.Key())] = out[string(item.Key())]
		}
		for key, want := range out {
			item, err := txn.Get([]byte(key))
			if err != nil {
				return fmt.Errorf("get %.40q: %w", key, err)
			}
			v, err := item.Value()
			if err != nil {
				return fmt.Errorf("get %.40q: value: %w", key, err)
			}
			if string(v) != want {
				return fmt.Errorf("get %.40q: %s, an iterator found %s", key, brief(string(v)), brief(want))
			}
		}
		return nil
	})
	if err == nil && !maps.Equal(out, back) {
		err = fmt.Errorf("forward: %s\nbackward: %s", show(out), show(back))
	}
	return out, err
}

// commitOf is the number of the last commit in a dump.
func commitOf(dump map[string]string) (int, error) {
	text, ok := dump[marker]
	if !ok {
		return 0, nil
	}
	return strconv.Atoi(text)
}

// ever reports whether a commit has given a key this value.
func (l *ledger) ever(key, value string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.commits, func(c commit) bool {
		return slices.ContainsFunc(c.writes, func(w write) bool { return w.key == key && w.value == value && !w.del })
	})
}

// differ says how got differs from want; "" if it does not differ.
func differ(got, want map[string]string) string {
	for k, v := range want {
		g, ok := got[k]
		switch {
		case !ok:
			return fmt.Sprintf("%.40q is missing", k)
		case g != v:
			return fmt.Sprintf("%.40q is %s, want %s", k, brief(g), brief(v))
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			return fmt.Sprintf("%.40q is there and should not be", k)
		}
	}
	return ""
}

func brief(v string) string {
	if len(v) <= 40 {
		return strconv.Quote(v)
	}
	return fmt.Sprintf("%q... (%d bytes)", v[:24], len(v))
}

func show(m map[string]string) string {
	s := fmt.Sprintf("%d keys:", len(m))
	for k, v := range m {
		s += fmt.Sprintf(" %.20q=%s", k, brief(v))
		if len(s) > 400 {
			return s + " ..."
		}
	}
	return s
}

func must(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
