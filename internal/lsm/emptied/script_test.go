package emptied

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/test/kit/script"
)

// Each file of testdata shows one behaviour of a store in which nothing works by itself,
// but for a committer who finds that the search is late. Keys are numbers. The commands:
//
//	open [memtable=bytes] [hasty]   a new store; hasty: flushes do not search before
//	write [batch=n] [spilled]       a line: "set from upto", "delete from upto [how]" or "expire from upto
//	                                ms"; how: "down", "shuffled", "every n" (round after round), "ends" (from
//	                                both in turn), "regions n" (in turn). batch: keys a transaction, 1 if not
//	                                given; spilled: all of them are one transaction larger than its memory
//	clock ms=n                      sets the time
//	search, seal, flush, compact
//	pin name=p, unpin name=p        a reader
//	seek [key=n] [pin=p]            the first key from there on, and how many entries were met; a seek that
//	                                has met 20 deleted keys in a row notes them
//	known [pin=p]                   ranges, and the version as of which they are emptied
//
// What a reader sees is checked after each command.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			p := &player{pins: map[string]*reader{}}
			script.Run(t, path, p.play)
		})
	}
}

// player runs one script.
type player struct {
	*store
	pins map[string]*reader
}

func (p *player) play(t *testing.T, c *script.Case) (out string) {
	defer func() {
		for _, r := range append(p.readers, p.reader()) {
			if fmt.Sprint(r.truth()) != fmt.Sprint(r.seen()) {
				t.Errorf("%s: at version %d:\n got %s\nwant %s", c.Pos, r.version, r.seen(), r.truth())
			}
		}
	}()
	if c.Cmd == "open" {
		p.store = newStore(t)
		p.tracker = NewTracker(Options{Seed: testSeed, MemtableBytes: c.Int(t, "memtable", 0)})
		p.hasty = c.Has("hasty")
	}
	p.t = t
	switch c.Cmd {
	case "open":
	case "write":
		p.write(c)
	case "clock":
		p.clock = uint64(c.Int(t, "ms", 0))
	case "search":
		p.search()
	case "seal":
		p.seal()
	case "flush":
		p.flush()
	case "compact":
		p.compact()
	case "pin":
		p.pins[c.String("name", "")] = p.pin()
	case "unpin":
		name := c.String("name", "")
		for i, r := range p.readers {
			if r == p.pins[name] {
				p.unpin(i)
				break
			}
		}
	case "seek":
		s := p.named(c).forward(key(c.Int(t, "key", 0)), 1)
		if s.keys == nil {
			return fmt.Sprintf("nothing, after %d steps", s.steps)
		}
		return fmt.Sprintf("%s, after %d steps", number([]byte(s.keys[0])), s.steps)
	case "known":
		out = p.known(p.named(c))
	default:
		t.Fatalf("%s: unknown command %s", c.Pos, c.Cmd)
	}
	return out
}

func (p *player) named(c *script.Case) *reader {
	if r := p.pins[c.String("pin", "")]; r != nil {
		return r
	}
	return p.reader()
}

// seen are the keys that r sees when it walks all, and notes nothing.
func (r *reader) seen() []string {
	quiet := *r
	quiet.quiet = true
	return quiet.forward([]byte{0}, 1<<30).keys
}

// number tells the number of a key.
func number(key []byte) string {
	text, after := strings.CutSuffix(string(key), "\x00")
	n, err := strconv.Atoi(strings.TrimPrefix(text, "k"))
	switch {
	case err != nil:
		return "the end"
	case after:
		return fmt.Sprintf("after %d", n)
	}
	return fmt.Sprint(n)
}

func (p *player) known(r *reader) string {
	var out strings.Builder
	list := func(what string, s *rangedel.Set) {
		if s.Len() > 5 {
			fmt.Fprintf(&out, "%s: %d ranges\n", what, s.Len())
			return
		}
		for _, r := range s.All() {
			fmt.Fprintf(&out, "%s: %s to %s, as of %d\n", what, number(r.Lo), number(r.Hi), r.Version-1)
		}
	}
	if s := r.view.known.searched.Load(); s != nil {
		list("searched", s.last)
	}
	list("noted", r.view.known.noted.Load())
	return out.String()
}

func (p *player) write(c *script.Case) {
	batch := c.Int(p.t, "batch", 1)
	var all []entry.Entry
	for line := range strings.Lines(c.Input) {
		words := strings.Fields(line)
		from, err := strconv.Atoi(words[1])
		if err != nil {
			p.t.Fatalf("%s: %v", c.Pos, err)
		}
		upto, err := strconv.Atoi(words[2])
		if err != nil {
			p.t.Fatalf("%s: %v", c.Pos, err)
		}
		words = append(words, "", "1")
		n, _ := strconv.Atoi(words[4])
		for _, i := range order(upto-from, words[3], n) {
			switch words[0] {
			case "set":
				all = append(all, set(from+i))
			case "delete":
				all = append(all, del(from+i))
			case "expire":
				e := set(from + i)
				e.Expires, _ = strconv.ParseUint(words[3], 10, 64)
				all = append(all, e)
			}
		}
	}
	if c.Has("spilled") {
		p.commitSpilled(func() {}, all...)
		return
	}
	for ; len(all) > 0; all = all[min(batch, len(all)):] {
		p.commit(all[:min(batch, len(all))]...)
	}
}

// order lists the numbers below count.
func order(count int, how string, n int) []int {
	all := make([]int, count)
	for i := range all {
		switch how {
		case "down":
			all[i] = count - 1 - i
		case "ends":
			all[i] = i%2*(count-1-i/2) + (1-i%2)*(i/2)
		case "regions":
			all[i] = i%n*(count/n) + i/n
		default:
			all[i] = i
		}
	}
	switch how {
	case "shuffled":
		return rand.New(rand.NewPCG(3, 4)).Perm(count)
	case "every":
		all = all[:0]
		for first := range n {
			for i := first; i < count; i += n {
				all = append(all, i)
			}
		}
	}
	return all
}
