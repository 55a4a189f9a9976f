package metamorphic

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/deadline"
	"github.com/brockdb/brock/internal/test/kit/draw"
	"github.com/brockdb/brock/vfs"
)

// twin is a copy of an encrypted store that went on by itself. Twins have the same keys,
// uuid and, mostly, file numbers and lengths; values differ.
type twin struct {
	*session
	mem *vfs.Mem
}

// twinsOf makes a store, and two copies of it that both go on, in this process. It
// returns the first twin, closed, and the files of others: the store before they parted,
// the first one while it went on, and the second one.
func twinsOf(t *testing.T, killed bool) (v *victim, others map[string]*vfs.Mem) {
	mem := vfs.NewMem()
	first := &twin{newSession(t, mem, brock.Options{Tuning: small, Keys: testKeys}), mem}
	first.open()
	first.work(1, 0)
	first.close()
	others = map[string]*vfs.Mem{"the past": mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})}

	second := first.copy(others["the past"])
	for _, x := range []*twin{first, second} {
		x.open()
	}
	// Steps in turn: the ledger of nonces watches both.
	for step := range 3 {
		first.work(2, step)
		second.work(3, step)
		if step == 1 {
			others["a moment ago"] = first.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		}
	}
	v = &victim{mem: first.mem, o: first.o, ledger: first.ledger, killed: killed, stale: map[string][]byte{}}
	v.least = first.ledger.promise().acked
	v.tail = v.least
	if killed {
		v.mem = first.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		v.least, v.tail = v.least-1, v.least-1 // damage to the last frame looks like a torn tail
		others["the other twin"] = second.mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	}
	first.close()
	second.close()
	if !killed {
		others["the other twin"] = second.mem
	}
	v.files = list(t, v.mem)
	return v, others
}

func (x *twin) copy(m *vfs.Mem) *twin {
	m = m.CrashClone(vfs.CrashOptions{Mode: vfs.All})
	y := &twin{newSession(x.t, m, x.o), m}
	y.ledger.commits = slices.Clone(x.ledger.commits)
	y.ledger.created, y.ledger.safe, y.ledger.now = true, x.ledger.safe, x.ledger.now
	return y
}

// work writes values that depend on the twin, of lengths that depend on the step only.
func (x *twin) work(who, step int) {
	n := 10 * step
	for i := range 8 {
		k := key(n + i)
		x.commit(buffered, put(k, text(k, who, 50+350*i)), put(key(n+i+30), text("s", who, 20)))
	}
	x.commit(synced, put(key(n+8), text("large", who, 150_000)), del(key(n)))
	x.flush()
	x.spill(1, put(key(n+9), text("spilled", who, 3000)), put(key(65), text("small", who, 30)))
	if step == 2 {
		x.try("rotate", func(db *brock.DB, ctx context.Context) error {
			return db.RotateKey(ctx, brock.RotateOptions{Rewrite: who == 3})
		})
	}
	x.compact()
	x.commit(buffered, delRange(key(n+3), key(n+5)), put(key(n+5), text("again", who, 900)))
	x.reclaim()
	for i := range 4 {
		x.commit(synced, put(key(60+i), text("tail", who, 60+500*i)))
	}
}

// splices replaces pieces of a file by those that other has at the same place: all of it,
// its pages, each run of bytes that differ (a record, a rest, a tag), all behind one of
// these; and moves such pieces within the file.
func splices(name, from string, mine, other []byte) (all []damage) {
	add := func(what string, fn func(p []byte) []byte) {
		all = append(all, edit(name, fmt.Sprintf("%s of %s", what, from), fn))
	}
	part := func(what string, begin, end int) {
		end = min(end, len(other))
		if begin >= end || begin < len(mine) && end <= len(mine) && bytes.Equal(mine[begin:end], other[begin:end]) {
			return
		}
		add(fmt.Sprintf("%s %d to %d", what, begin, end), func(p []byte) []byte {
			if len(p) < end {
				p = append(p, make([]byte, end-len(p))...)
			}
			copy(p[begin:end], other[begin:end])
			return p
		})
	}
	if !bytes.Equal(mine, other) {
		add("the whole", func([]byte) []byte { return other })
	}
	for at := 0; at < len(other); at += 4096 {
		part("page", at, at+4096)
		if at > 0 {
			part("all from the page", at, len(other))
		}
	}
	for _, gap := range []int{0, 24, 200} {
		runs := differences(mine, other, gap)
		for i, r := range runs {
			part("run", r[0], r[1])
			part("all from the run", r[0], len(other))
			if i == 0 {
				continue
			}
			if q := runs[i-1]; r[1] <= len(mine) && r[1]-r[0] == q[1]-q[0] {
				add(fmt.Sprintf("the run at %d in the place of that at %d, with the bytes", q[0], r[0]), func(p []byte) []byte {
					copy(p[r[0]:r[1]], slices.Clone(p[q[0]:q[1]]))
					return p
				})
			}
		}
	}
	return all
}

// differences are the places where a and b differ, as beginnings and ends; those that are
// at most gap apart are one.
func differences(a, b []byte, gap int) (runs [][2]int) {
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			continue
		}
		if n := len(runs); n > 0 && i-runs[n-1][1] <= gap {
			runs[n-1][1] = i + 1
		} else {
			runs = append(runs, [2]int{i, i + 1})
		}
	}
	return runs
}

// TestTwins puts files, pages and pieces of an encrypted store in the place of those that
// a copy of it has, which went on, or that it has had itself: reads then return what was
// written to it, or an error. Nonces of the two are compared in builds with the tag
// invariants.
func TestTwins(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(map[bool]string{false: "closed", true: "killed"}[killed], func(t *testing.T) {
			t.Parallel()
			v, others := twinsOf(t, killed)
			var all []damage
			for _, from := range []string{"the past", "a moment ago", "the other twin"} {
				for _, name := range list(t, others[from]) {
					if !slices.Contains(v.files, name) {
						all = append(all, damage{"return of " + name + " of " + from, "", func(t *testing.T, m *vfs.Mem) {
							replace(t, m, name, content(t, others[from], name))
						}})
						continue
					}
					all = append(all, splices(name, from, content(t, v.mem, name), content(t, others[from], name))...)
				}
				all = append(all, kinds(t, v, from, others[from])...)
			}
			most := 400
			switch {
			case *everyFlag:
				most = len(all)
			case testing.Short() || raced:
				most = 120
			}
			draw.Rand(t).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // a failure names what it did
			counts := map[string]int{}
			for i, d := range all[:min(most, len(all))] {
				if i%50 == 0 && deadline.Near(t) {
					break
				}
				b := &beholder{t: t, v: v, d: d, heavy: i%5 == 0, noMap: i%3 == 0, keys: true}
				counts[b.behold()]++
				if t.Failed() {
					return
				}
			}
			t.Logf("%d splices of %v: %v", len(all), v.files, counts)
		})
	}
}

// kinds replaces all files of a kind at once by those of another copy.
func kinds(t *testing.T, v *victim, from string, other *vfs.Mem) (all []damage) {
	names := list(t, other)
	kind := func(name string) string {
		if ext := path.Ext(name); ext != "" {
			return ext
		}
		return name[:min(len(name), 4)] // SUPER, MANIFEST, KEYS
	}
	for _, name := range names {
		k := kind(name)
		all = append(all, damage{fmt.Sprintf("all %s of %s", k, from), "", func(t *testing.T, m *vfs.Mem) {
			for _, n := range v.files {
				if kind(n) == k {
					must(t, "remove", m.Remove(path.Join("db", n)))
				}
			}
			for _, n := range names {
				if kind(n) == k {
					replace(t, m, n, content(t, other, n))
				}
			}
		}})
	}
	return slices.CompactFunc(all, func(a, b damage) bool { return a.what == b.what })
}

// TestForkedStores: of the two copies each reads what was written to it.
func TestForkedStores(t *testing.T) {
	mem := vfs.NewMem()
	first := &twin{newSession(t, mem, brock.Options{Tuning: small, Keys: testKeys}), mem}
	first.open()
	first.work(1, 0)
	second := first.copy(first.mem) // of a killed one
	second.open()
	for step := range 3 {
		first.work(2, step)
		second.work(3, step)
	}
	for _, x := range []*twin{first, second} {
		x.reopen()
		got, err := dump(x.db)
		must(t, "read", err)
		p := x.ledger.promise()
		if d := differ(got, x.ledger.state(p.acked, p.now)); d != "" {
			t.Error(d)
		}
		must(t, "verify", x.db.Verify(context.Background(), nil))
		x.close()
	}
}
