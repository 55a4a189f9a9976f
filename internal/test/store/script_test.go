package store

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/script"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// TestScripts runs the scripts in testdata. Each file shows one behaviour of a
// store. A script has five commands:
//
//	store [threshold=BYTES] [versions=N] [age=D] [ttl=D] [buffered]    an empty store in the place of the one
//	                 before; then the steps below it, one a line
//	run              the steps below, one a line
//	everywhere       the same steps three times: as the store is, after a flush, and after a compaction.
//	                 Their results must be the same each time
//	race [isolation=snapshot|lastwriter]    a line is "STEPS | STEPS", separated by ";". For each line, in a store
//	                 as the last command store has left it, transaction t does the first steps, others do the
//	                 second, and t commits. All of it twice: without and with a flush before the commit
//	reads            which writes of others conflict with what the steps below read: a race of them against a
//	                 set of each of conflictKeys
//
// A step is "[WHO] [in KEYSPACE]: VERB ARGUMENTS", or just "VERB ARGUMENTS". WHO
// is a transaction, batch, writer or iterator that an earlier step began under
// that name. Without WHO the step is a call of the store or keyspace itself. A
// step that returns something gives a line "STEP -> RESULT"; a step that fails
// gives the error's name.
//
// Steps that begin something, and end it:
//
//	t: begin [readonly] [at=VERSION] [isolation=snapshot|lastwriter] [spill]    spill: writes go to files
//	t: commit, t: discard, t: version, t: committed    the version that t reads, and that it has written
//	b: batch, b: commit, b: len, b: reset
//	w: writer, w: flush, w: close
//	t: iterator NAME [OPTIONS]         OPTIONS as of scan
//	i: rewind, i: seek KEY, i: next, i: prev, i: close      each shows where i is then
//
// Writes:
//
//	set KEY=VALUE..., delete KEY...    VALUE x@300 is 300 times x; several at once without WHO are one transaction
//	entry KEY=VALUE [ttl=D] [expires=D] [meta=N] [latest]   ttl, expires: from now
//	deleterange LO HI                  - is no bound
//	compareset KEY=VALUE VERSION, comparedelete KEY VERSION
//
// Reads:
//
//	get KEY [at=VERSION], has KEY, meta KEY, getmany KEY..., versions KEY [at=VERSION]
//	scan [at=V] [since=V] [from=KEY] [upto=KEY] [prefix=KEY] [limit=N] [prefetch=N]
//	     [filter=PREFIX] [reverse] [all] [keysonly]
//	contents                           of every keyspace
//
// The store:
//
//	keyspace NAME [as=WORD] [threshold=N] [versions=N] [age=D] [ttl=D]    opens it; steps call it WORD, or else
//	                                   NAME; "the same" if that was this keyspace before
//	change NAME [the same], options NAME, drop NAME, clear NAME
//	dropall, dropprefix PREFIX..., flush, compact, verify, version, conflicts, entries (in runs)
//	separated                          whether segments have values
//	wait D                             the clock moves on
//	close, reopen [readonly] [ttl=D ...], crash [all] [ttl=D ...]    with other defaults; crash keeps what is durable; all: everything that was written
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &player{keys: storetest.DrawKeys(t)}
			defer p.close()
			script.Run(t, path, p.play)
		})
	}
}

// conflictKeys are the keys whose writes the command reads tries.
var conflictKeys = strings.Fields("a b bb c cc cd ce d dd dzz e ee f ff g x z")

// player runs one script.
type player struct {
	t         *testing.T
	setup     *script.Case // the last command store
	mem       *vfs.Mem
	clock     *storetest.Clock
	keys      brock.KeyProvider
	options   brock.Options
	db        *brock.DB
	txns      map[string]*brock.Txn
	batches   map[string]*brock.Batch
	writers   map[string]*brock.Writer
	iterators map[string]*brock.Iterator
	keyspaces map[string]*brock.Keyspace
}

func (p *player) play(t *testing.T, c *script.Case) string {
	p.t = t
	switch c.Cmd {
	case "store":
		p.setup = c
		return p.newStore()
	case "run":
		return p.run(c.Input)
	case "everywhere":
		return p.everywhere(c)
	case "race":
		return p.race(c)
	case "reads":
		return p.reads(c)
	}
	t.Fatalf("%s: unknown command %s", c.Pos, c.Cmd)
	return ""
}

// newStore does what the last command store says.
func (p *player) newStore() string {
	p.close()
	var list []string
	for _, a := range p.setup.Args {
		list = append(list, a.Key+"="+p.setup.String(a.Key, ""))
	}
	p.mem, p.clock = vfs.NewMem(), storetest.NewClock(1_700_000_000_000)
	p.options = brock.Options{Dir: "/s", FS: p.mem, Now: p.clock.Now, Keys: p.keys, KeyspaceDefaults: p.parse(list).keyspace()}
	if p.setup.Has("buffered") {
		p.options.Durability = brock.Buffered
	}
	p.open()
	return p.run(p.setup.Input)
}

func (p *player) open() {
	db, err := brock.Open(p.options)
	assert.OK(p.t, err)
	p.db = db
	p.txns, p.batches = map[string]*brock.Txn{}, map[string]*brock.Batch{}
	p.writers, p.iterators = map[string]*brock.Writer{}, map[string]*brock.Iterator{}
	p.keyspaces = map[string]*brock.Keyspace{}
}

func (p *player) close() {
	if p.db == nil {
		return
	}
	for _, txn := range p.txns {
		txn.Discard()
	}
	assert.OK(p.t, p.db.Close())
	p.db = nil
}

// run does the steps, and returns what they return.
func (p *player) run(steps string) string {
	var out strings.Builder
	for line := range strings.Lines(steps) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if result := p.do(p.step(line)); result != "" {
			fmt.Fprintf(&out, "%s -> %s\n", line, strings.TrimSpace(result))
		}
	}
	return out.String()
}

// everywhere does the steps wherever the data may lie.
func (p *player) everywhere(c *script.Case) string {
	first := p.run(c.Input)
	for _, place := range []string{"flush", "compact"} {
		p.run(place)
		if again := p.run(c.Input); again != first {
			p.t.Errorf("%s: other results after %s:\n%s", c.Pos, place, again)
		}
	}
	return first
}

// race says of each pair of steps whether t, which does the first, can commit.
func (p *player) race(c *script.Case) string {
	var out strings.Builder
	for line := range strings.Lines(c.Input) {
		mine, others, _ := strings.Cut(line, "|")
		result := p.against(c, mine, others, "")
		if flushed := p.against(c, mine, others, "flush"); flushed != result {
			p.t.Errorf("%s: %s: %s, and after a flush %s", c.Pos, line, result, flushed)
		}
		fmt.Fprintf(&out, "%s -> %s\n", strings.TrimSpace(line), result)
	}
	return out.String()
}

// reads says which keys conflict with the steps of c if others set them.
func (p *player) reads(c *script.Case) string {
	var conflicts []string
	for _, key := range conflictKeys {
		if p.against(c, c.Input+"; set result=1", "set "+key+"=2", "") != "commits" {
			conflicts = append(conflicts, key)
		}
	}
	if conflicts == nil {
		return "conflicts: none"
	}
	return "conflicts: " + strings.Join(conflicts, " ")
}

// against has t do its steps, and others theirs, and says how t's commit ends.
func (p *player) against(c *script.Case, mine, others, before string) string {
	p.newStore()
	p.run("t: begin isolation=" + c.String("isolation", ""))
	for line := range strings.SplitSeq(strings.ReplaceAll(mine, "\n", ";"), ";") {
		if line = strings.TrimSpace(line); line != "" {
			s := p.step(line)
			if s.who == "" {
				s.who = "t"
			}
			p.do(s)
		}
	}
	p.run(strings.ReplaceAll(others, ";", "\n") + "\n" + before)
	switch result := p.do(p.step("t: commit")); result {
	case "":
		return "commits"
	case "ErrConflict":
		return "conflict"
	default:
		p.t.Errorf("%s: commit: %s", c.Pos, result)
		return result
	}
}

// step is one line of a script.
type step struct {
	who, keyspace, verb string
	words               []string
}

var stepLine = regexp.MustCompile(`^(?:(\w*) ?(?:in (\w+))?: )?(\w+) ?(.*)$`)

func (p *player) step(line string) step {
	m := stepLine.FindStringSubmatch(line)
	if m == nil {
		p.t.Fatalf("%q is no step", line)
	}
	return step{m[1], m[2], m[3], strings.Fields(m[4])}
}

// words are the arguments of a step: plain ones in order, and NAME=VALUE.
type words struct {
	t      *testing.T
	plain  []string
	values map[string]string
}

func (p *player) parse(list []string) words {
	w := words{p.t, nil, map[string]string{}}
	for _, word := range list {
		if name, value, found := strings.Cut(word, "="); found {
			w.values[name] = value
		} else {
			w.plain = append(w.plain, word)
		}
	}
	return w
}

func (w words) has(name string) bool { return slices.Contains(w.plain, name) }

func (w words) number(name string) int {
	if w.values[name] == "" {
		return 0
	}
	n, err := strconv.Atoi(w.values[name])
	assert.OK(w.t, err)
	return n
}

func (w words) duration(name string) time.Duration {
	if w.values[name] == "" {
		return 0
	}
	d, err := time.ParseDuration(w.values[name])
	assert.OK(w.t, err)
	return d
}

// key is an argument as a key; nil if it is not there.
func (w words) key(name string) []byte {
	if w.values[name] == "" {
		return nil
	}
	return unquote(w.values[name])
}

func (w words) keyspace() brock.KeyspaceOptions {
	return brock.KeyspaceOptions{
		ValueThreshold: w.number("threshold"), TTL: w.duration("ttl"),
		Versions: brock.Retention{Versions: w.number("versions"), Age: w.duration("age")},
	}
}

func (w words) iterator() brock.IteratorOptions {
	o := brock.IteratorOptions{
		Lower: w.key("from"), Upper: w.key("upto"), Prefix: w.key("prefix"), Since: uint64(w.number("since")),
		Limit: w.number("limit"), Prefetch: w.number("prefetch"),
		Reverse: w.has("reverse"), AllVersions: w.has("all"), KeysOnly: w.has("keysonly"),
	}
	if prefix := w.key("filter"); prefix != nil {
		o.Filter = func(key []byte, _ byte) bool { return bytes.HasPrefix(key, prefix) }
	}
	return o
}

// unquote is a key: "-" is none, and \xff is a byte.
func unquote(s string) []byte {
	if s == "-" {
		return nil
	}
	k, err := strconv.Unquote(`"` + s + `"`)
	if err != nil {
		return []byte(err.Error())
	}
	return []byte(k)
}

// value is a value: x@300 is 300 times x.
func value(s string) []byte {
	if one, n, found := strings.Cut(s, "@"); found {
		times, _ := strconv.Atoi(n)
		return []byte(strings.Repeat(one, times))
	}
	return []byte(s)
}
