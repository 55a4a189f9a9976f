package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock/internal/base/checksum"
	"github.com/brockdb/brock/internal/base/entry"
	"github.com/brockdb/brock/internal/base/errs"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/lsm/rangedel"
	"github.com/brockdb/brock/internal/lsm/run"
	"github.com/brockdb/brock/internal/test/kit/script"
	"github.com/brockdb/brock/internal/version/layout"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/vfs"
)

// Each file of testdata shows one behaviour. The commands:
//
//	open [memtable=bytes] [versions=n] [age=ms] [garbage=percent] [nomap]   a new store; the others need one
//	write [sync]    one transaction a line: "set key value", "latest key value" (SetLatest), "del key";
//	                "delrange from upto" (of what earlier transactions wrote);
//	                "tiny key value" (with its own checksum); a value @n is n bytes; " expires=ms" may
//	                follow; several writes a line are joined by ";"
//	clock ms=n      sets the time
//	seal, flush     seal: the memtable is sealed; flush: all memtables become runs
//	merge, settle, compact                   what policy wants; the same at idle; everything
//	collect, repoint                         segments with garbage; merges until no handle leads through a forwarding table
//	scatter bytes=n                          as iterators that had to jump for n bytes
//	pin name=p [at=v], unpin name=p          a reader
//	get [key=(k,...)] [pin=p] [at=v]         what a reader finds
//	history [pin=p]                          all entries of all versions
//	changed key=k [since=v]                  what a commit leader would be told
//	due                                      when something is to be done because of expiry
//	rest                                     writers are silent, and what that brings is done
//	ring                                     the alarm of expiry rings, if it is set, and what it kicks is done
//	layout, files                            what the store consists of; layout also verifies it
//	abandon                                  files of work that was never concluded, and a foreign file
//	reopen, crash [mode=lost|all]            crash keeps only what is durable
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &player{pins: map[string]*view.Pin{}}
			script.Run(t, path, p.play)
			if p.store != nil {
				for _, pin := range p.pins {
					pin.Release()
				}
				p.store.close()
			}
		})
	}
}

// player runs one script.
type player struct {
	store *store
	mem   *vfs.Mem
	pins  map[string]*view.Pin
}

func (p *player) play(t *testing.T, c *script.Case) string {
	if c.Cmd == "open" {
		p.mem = vfs.NewMem()
		p.store = newStore(t, p.mem, func(s *store) {
			s.cfg.MemtableBytes = c.Int(t, "memtable", s.cfg.MemtableBytes)
			s.cfg.SegmentBytes = int64(c.Int(t, "segment", int(s.cfg.SegmentBytes)))
			s.cfg.Policy.Versions = c.Int(t, "versions", 0)
			s.cfg.Policy.Age = time.Duration(c.Int(t, "age", 0)) * time.Millisecond
			s.cfg.Policy.GarbageShare = c.Int(t, "garbage", 0)
			s.cfg.NoMap = c.Has("nomap")
		})
		return ""
	}
	if p.store == nil {
		t.Fatalf("%s: the store is not open", c.Pos)
	}
	p.store.t = t
	switch c.Cmd {
	case "write":
		return p.write(c)
	case "clock":
		p.store.clock = int64(c.Int(t, "ms", 0))
	case "seal":
		p.store.seal()
	case "flush":
		p.store.flush()
	case "merge":
		_, err := p.store.engine.Work.compactor.compactPlanned(context.Background(), whileBusy)
		return outcome(err)
	case "settle":
		return outcome(p.store.engine.Work.workAtRest(context.Background()))
	case "compact":
		p.store.flush()
		return outcome(p.store.engine.Work.Compact(context.Background()))
	case "collect":
		_, err := p.store.engine.Work.collector.collectPlanned(context.Background(), atIdle)
		return outcome(err)
	case "repoint":
		_, err := p.store.engine.Work.compactor.compactPlanned(context.Background(), onRequest)
		return outcome(err)
	case "scatter":
		p.store.engine.Work.AddJumped(uint64(c.Int(t, "bytes", 0)))
	case "pin":
		pin, err := p.store.engine.Views.Acquire(entry.Version(c.Int(t, "at", 0)))
		if err != nil {
			return kindOf(err)
		}
		p.pins[c.String("name", "")] = pin
		return fmt.Sprintf("at version %d", pin.Version())
	case "unpin":
		name := c.String("name", "")
		p.pins[name].Release()
		delete(p.pins, name)
	case "get":
		return p.reading(c, func(pin *view.Pin) string { return p.get(pin, c) })
	case "history":
		return p.reading(c, p.history)
	case "changed":
		return p.changed(c)
	case "due":
		due := p.store.engine.nextExpiryDue(p.store.engine.isIdle())
		wait := max(time.Duration(int64(due)-p.store.clock)*time.Millisecond, policy.ExpiryLeastWait)
		if left, set := p.store.engine.tasks.expiry.Left(); set != (due != 0) || left > wait {
			t.Errorf("%s: due at %d, in %v, but alarm set: %v, rings in %v", c.Pos, due, wait, set, left)
		}
		if due == 0 {
			return "never"
		}
		return fmt.Sprintf("at %d", due)
	case "ring":
		n := p.store.engine.cfg.Jobs.Ring()
		return fmt.Sprintf("%d alarms", n) + p.work()
	case "rest":
		p.store.engine.cfg.Jobs.Idle()
		return p.work()
	case "layout":
		return p.layout()
	case "files":
		p.store.engine.views.ReclaimViews()
		names, err := p.mem.List("/s")
		p.store.must(err)
		return strings.Join(names, "\n")
	case "abandon":
		p.abandon()
	case "reopen":
		p.store.close()
		p.store.mustOpen()
		return p.recovered()
	case "crash":
		return p.crash(c)
	default:
		t.Fatalf("%s: unknown command %s", c.Pos, c.Cmd)
	}
	return ""
}

// work does what was kicked.
func (p *player) work() string {
	for {
		if _, ok, err := p.store.engine.cfg.Jobs.Step(); !ok || err != nil {
			return outcome(err)
		}
	}
}

func outcome(err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return ""
}

// kindOf names an error by its sentinel.
func kindOf(err error) string {
	for _, known := range []error{errs.ErrVersionGone, errs.ErrInvalid, errs.ErrClosed} {
		if errors.Is(err, known) {
			return "error: " + known.Error()
		}
	}
	return outcome(err)
}

func (p *player) write(c *script.Case) string {
	first := p.store.last + 1
	for line := range strings.Lines(c.Input) {
		var ops []op
		for part := range strings.SplitSeq(line, ";") {
			ops = append(ops, p.parse(part))
		}
		if err := p.store.commit(c.Has("sync"), ops...); err != nil {
			return outcome(err)
		}
	}
	if first == p.store.last {
		return fmt.Sprintf("version %d", first)
	}
	return fmt.Sprintf("versions %d to %d", first, p.store.last)
}

func (p *player) parse(text string) op {
	words := strings.Fields(text)
	o := op{key: words[1], kind: map[string]entry.Kind{"set": entry.Set, "latest": entry.SetLatest, "del": entry.Delete, "tiny": entry.Set, "delrange": entry.RangeDelete}[words[0]]}
	o.own = words[0] == "tiny"
	for _, w := range words[2:] {
		if ms, ok := strings.CutPrefix(w, "expires="); ok {
			n, err := strconv.ParseUint(ms, 10, 64)
			p.store.must(err)
			o.expires = n
		} else if size, ok := strings.CutPrefix(w, "@"); ok {
			n, err := strconv.Atoi(size)
			p.store.must(err)
			o.value = bulk(o.key, n)
		} else {
			o.value = []byte(w)
		}
	}
	return o
}

// reading calls fn with the reader that the command names.
func (p *player) reading(c *script.Case, fn func(*view.Pin) string) string {
	if name := c.String("pin", ""); name != "" {
		return fn(p.pins[name])
	}
	pin, err := p.store.engine.Views.Acquire(entry.Version(c.Int(p.store.t, "at", 0)))
	if err != nil {
		return kindOf(err)
	}
	defer pin.Release()
	return fn(pin)
}

func (p *player) get(pin *view.Pin, c *script.Case) string {
	var out strings.Builder
	for _, a := range c.Args {
		if a.Key != "key" {
			continue
		}
		for _, key := range a.Values {
			if value, v, found := p.store.lookup(pin, key); found {
				fmt.Fprintf(&out, "%s = %s (version %d)\n", key, shown(key, value), v)
			} else {
				fmt.Fprintf(&out, "%s is not there\n", key)
			}
		}
	}
	return out.String()
}

func (p *player) history(pin *view.Pin) string {
	var out strings.Builder
	it := pin.Iterator()
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		e := it.Entry()
		fmt.Fprintf(&out, "%s %d ", e.Key, e.Version)
		switch {
		case e.Kind == entry.Delete:
			out.WriteString("deleted")
		default:
			value, err := valueOf(pin, e.Key, e)
			p.store.must(err)
			out.WriteString(shown(string(e.Key), value))
			if e.Expires != 0 {
				fmt.Fprintf(&out, " expires at %d", e.Expires)
			}
			if e.Separated {
				fmt.Fprintf(&out, " in segment %d", e.Handle.Segment)
			}
		}
		out.WriteByte('\n')
	}
	p.store.must(it.Err())
	return out.String()
}

func (p *player) changed(c *script.Case) string {
	key := []byte(c.String("key", ""))
	since := entry.Version(c.Int(p.store.t, "since", 0))
	v, found, err := p.store.engine.Commits.Newest(key, checksum.HashKey(p.store.engine.cfg.Seed, key), 0)
	p.store.must(err)
	changed, err := p.store.engine.Commits.ChangedSince(key, append(slices.Clone(key), 0), since)
	p.store.must(err)
	if found != (v > 0) || changed != (found && v > since) {
		return fmt.Sprintf("contradiction: newest %d %v, changed since %d %v", v, found, since, changed)
	}
	if !changed {
		return fmt.Sprintf("not since version %d", since)
	}
	return fmt.Sprintf("at version %d", v)
}

func (p *player) layout() string {
	var out strings.Builder
	v := p.store.engine.views.Current()
	for _, m := range v.Tables {
		fmt.Fprintf(&out, "memtable: %d entries", m.Len())
		if d := m.RangeDeletes(); d != nil {
			fmt.Fprintf(&out, ", range deletes: %s", rangeDeletes(d.All()))
		}
		out.WriteByte('\n')
	}
	for i, r := range v.Layout.Runs() {
		tier := "upper"
		if r.Tier == layout.Base {
			tier = "base"
		}
		fmt.Fprintf(&out, "run %d: %s, %d entries, %d deletes, versions %d to %d", r.ID, tier, r.Entries, r.Deletes, r.MinVersion, r.MaxVersion)
		if d := v.Runs[i].RangeDeletes(); !d.Empty() {
			fmt.Fprintf(&out, ", range deletes: %s", rangeDeletes(runRangeDeletes(d)))
		}
		for _, ref := range r.Refs {
			fmt.Fprintf(&out, ", %d values in segment %d", ref.Records, ref.Segment)
		}
		out.WriteByte('\n')
	}
	for _, s := range v.Layout.Segments() {
		fmt.Fprintf(&out, "segment %d: %s, %d records, %d dead", s.Num, s.Kind, s.Records, s.DeadRecords())
		if st := s.State(); st.Status == layout.Relocated {
			fmt.Fprintf(&out, ", moved to segment %d", st.Target)
		}
		out.WriteByte('\n')
	}
	var reading []string
	for _, f := range v.Segments.Files {
		if v.Layout.Segment(f.Num) == nil {
			reading = append(reading, fmt.Sprint(f.Num))
		}
	}
	if len(reading) > 0 {
		fmt.Fprintf(&out, "journal of the memtables: %s\n", strings.Join(reading, " "))
	}
	fmt.Fprintf(&out, "history from version %d\n", v.Layout.Floor())
	return out.String() + p.store.check()
}

// runRangeDeletes are those of a run, in the order of rangedel.Compare.
func runRangeDeletes(d run.RangeDeletes) (list []rangedel.Delete) {
	_ = d.Since(0, func(t rangedel.Delete) error {
		list = append(list, rangedel.Delete{Lo: bytes.Clone(t.Lo), Hi: bytes.Clone(t.Hi), Version: t.Version})
		return nil
	})
	slices.SortFunc(list, rangedel.Compare)
	return list
}

func rangeDeletes(list []rangedel.Delete) string {
	var out []string
	for _, d := range list {
		out = append(out, fmt.Sprintf("[%s, %s) at %d", d.Lo, d.Hi, d.Version))
	}
	return strings.Join(out, " ")
}

func (p *player) recovered() string {
	r := p.store.rec
	return fmt.Sprintf("replayed %d entries, cut %v, removed %d files", r.Entries, r.CutBytes > 0, r.Removed)
}

func (p *player) abandon() {
	e := entry.Entry{Key: []byte("k"), Value: []byte("v"), Version: 1, Kind: entry.Set}
	run := p.store.engine.files.NewRunWriter(false, nil, nil)
	p.store.must(run.Add(&e))
	_, err := run.Finish()
	p.store.must(err)
	values, err := p.store.engine.files.NewValueWriter()
	p.store.must(err)
	_, err = values.Add(&e)
	p.store.must(err)
	_, err = values.Finish()
	p.store.must(err)
	f, err := p.mem.Create("/s/000099.run")
	p.store.must(err)
	_, err = f.WriteAt([]byte("of another program"), 0)
	p.store.must(errors.Join(err, f.Close()))
}

func (p *player) crash(c *script.Case) string {
	mode := map[string]vfs.CrashMode{"lost": vfs.Lost, "all": vfs.All}[c.String("mode", "lost")]
	left := p.mem.CrashClone(vfs.CrashOptions{Mode: mode})
	for name, pin := range p.pins {
		pin.Release()
		delete(p.pins, name)
	}
	p.store.close()
	p.mem, p.store.fs = left, left
	p.store.mustOpen()
	return p.recovered()
}
