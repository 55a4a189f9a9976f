package replicated

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
	"github.com/hashicorp/raft"
)

var (
	chaosTime = flag.Duration("replicated.chaos", 0, "how long TestChaos runs; 0 = 100,000 operations, 10,000 with -short")
	chaosSeed = flag.Uint64("replicated.seed", 0, "seed of TestChaos; 0 = by the clock")
)

// What a client does with a key. Values are unique, so a value stands for the version that it has.
type (
	opInput struct {
		kind   byte // 'r'ead, 'w'rite, 'c'ompare and set
		key    string
		expect string // of 'c'; "" is absent
		value  string // "" deletes
	}
	opOutput struct {
		value   string // of 'r'
		failed  bool   // of 'c': the condition did not hold
		unknown bool
	}
)

// register is the model of a key.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(opInput).key
			byKey[key] = append(byKey[key], o)
		}
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in, out, now := input.(opInput), output.(opOutput), state.(string)
		switch {
		case in.kind == 'r':
			return out.value == now, now
		case in.kind == 'w':
			return true, in.value
		case out.unknown && in.expect != now:
			return true, now
		case out.failed:
			return in.expect != now, now
		}
		return in.expect == now, in.value
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v %+v", input, output) },
}

// history is what clients have seen.
type history struct {
	mu      sync.Mutex // guards:
	ops     []porcupine.Operation
	unknown int
	notDone map[string]error // values whose commands were said not to be done
}

func (h *history) add(o porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
	if o.Output.(opOutput).unknown {
		h.unknown++
	}
}

// check fails the test unless the history is linearizable.
func (h *history) check(t *testing.T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	reads := 0
	keyOf := map[string]string{} // of the values
	for _, o := range h.ops {
		if in := o.Input.(opInput); in.kind == 'r' {
			reads++
		} else {
			keyOf[in.value] = in.key
		}
	}
	for _, o := range h.ops {
		in, value := o.Input.(opInput), o.Output.(opOutput).value
		if err := h.notDone[value]; err != nil && value != "" {
			t.Errorf("client %d reads %q in key %s, which was said not to be done: %v", o.ClientId, value, in.key, err)
		} else if in.kind == 'r' && value != "" && keyOf[value] != in.key {
			t.Errorf("client %d reads %q in key %s, which was written to %q", o.ClientId, value, in.key, keyOf[value])
		}
	}
	t.Logf("%d operations, %d of them reads, %d without an answer", len(h.ops), reads, h.unknown)
	for _, part := range register.Partition(h.ops) {
		if r := porcupine.CheckOperationsTimeout(register, part, time.Minute); r != porcupine.Ok {
			t.Errorf("key %s: the history is %s", part[0].Input.(opInput).key, r)
			for _, o := range part {
				t.Logf("client %d %d..%d %s", o.ClientId, o.Call, o.Return, register.DescribeOperation(o.Input, o.Output))
			}
			return
		}
	}
}

// client does operations on random nodes until it is told to stop.
type client struct {
	c       *cluster
	h       *history
	id      int
	rng     *rand.Rand
	began   time.Time
	counter *atomic.Int64
	seen    map[string]seen // what it read last
}

// seen is a value and its version.
type seen struct {
	value   string
	version uint64
}

// operate does one operation. Keys are used for some time, then others.
func (x *client) operate() {
	m := x.c.members[x.rng.IntN(len(x.c.members))]
	n := m.node.Load()
	if n == nil {
		time.Sleep(time.Millisecond)
		return
	}
	number := x.counter.Add(1)
	in := opInput{kind: "rrwwcc"[x.rng.IntN(6)], key: fmt.Sprintf("%d-%d", number/1000, x.rng.IntN(10))}
	in.value = fmt.Sprintf("%d.%d", x.id, number)
	if x.rng.IntN(10) == 0 {
		in.value = ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var out opOutput
	var err error
	call := time.Since(x.began)
	key, keyspace := []byte(in.key), []string{"", "a", "b"}[number/1000%3]
	switch in.kind {
	case 'r':
		var now seen
		err = n.View(ctx, Newest, func(txn *Reader) error {
			in, err := txn.In(keyspace)
			if errors.Is(err, brock.ErrKeyspaceNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			item, err := in.Get(key)
			if errors.Is(err, brock.ErrKeyNotFound) || errors.Is(err, brock.ErrKeyspaceNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			value, err := item.Value()
			now = seen{string(value), item.Version()}
			return err
		})
		out.value = now.value
		if err == nil {
			x.seen[in.key] = now
		}
	default:
		command := new(Command)
		if in.value == "" {
			command.Delete(key)
		} else {
			command.Set(key, []byte(in.value))
		}
		if in.kind == 'c' {
			in.expect = x.seen[in.key].value
			command.If(key, x.seen[in.key].version)
			if x.rng.IntN(2) == 0 { // the same, of a range
				c := &command.Conditions[0]
				c.Upper, c.Range = append(key[:len(key):len(key)], 0), true
				if in.expect != "" {
					c.Count = 1
				}
			}
			command.Conditions[0].Keyspace = keyspace
		}
		command.Operations[0].Keyspace = keyspace
		var version uint64
		version, err = n.Apply(ctx, command)
		switch {
		case errors.Is(err, ErrConflict):
			err, out.failed = nil, true
			delete(x.seen, in.key)
		case err == nil && in.value == "":
			delete(x.seen, in.key)
		case err == nil:
			x.seen[in.key] = seen{in.value, version}
		}
	}
	back := time.Since(x.began)
	// The node was killed meanwhile: who called it is dead, too.
	if m.node.Load() != n && err == nil {
		err = ErrUnknown
	}
	if err != nil {
		if in.kind == 'r' || !errors.Is(err, ErrUnknown) {
			x.h.mu.Lock()
			if in.kind != 'r' {
				x.h.notDone[in.value] = err
			}
			x.h.mu.Unlock()
			return
		}
		out = opOutput{unknown: true}
		back = 1 << 60
	}
	x.h.add(porcupine.Operation{ClientId: x.id, Input: in, Call: int64(call), Output: out, Return: int64(back)})
}

// fault is something that goes wrong, and how it is mended.
type fault struct {
	name string
	do   func(c *cluster, rng *rand.Rand) (mend func())
}

func pick(c *cluster, rng *rand.Rand) *member { return c.members[rng.IntN(len(c.members))] }

var faults = []fault{
	{"kill", func(c *cluster, rng *rand.Rand) func() {
		m := pick(c, rng)
		c.crash(m, vfs.CrashOptions{Mode: vfs.All})
		return func() { c.start(m) }
	}},
	{"power loss", func(c *cluster, rng *rand.Rand) func() {
		m := pick(c, rng)
		c.crash(m, vfs.CrashOptions{Mode: vfs.Chaos, Seed: rng.Uint64()})
		return func() { c.start(m) }
	}},
	{"power loss of all", func(c *cluster, rng *rand.Rand) func() {
		c.crashAll(rng)
		return func() {
			for _, m := range c.members {
				c.start(m)
			}
		}
	}},
	{"isolated leader", func(c *cluster, rng *rand.Rand) func() {
		c.isolate(c.leader(), true, true)
		return c.net.heal
	}},
	{"deaf leader", func(c *cluster, rng *rand.Rand) func() {
		c.isolate(c.leader(), false, true)
		return c.net.heal
	}},
	{"mute leader", func(c *cluster, rng *rand.Rand) func() {
		c.isolate(c.leader(), true, false)
		return c.net.heal
	}},
	{"random cuts", func(c *cluster, rng *rand.Rand) func() {
		for _, a := range c.members {
			for _, b := range c.members {
				c.net.cut(a.address(), b.address(), rng.IntN(3) == 0)
			}
		}
		return c.net.heal
	}},
	{"slow links", func(c *cluster, rng *rand.Rand) func() {
		c.net.mu.Lock()
		defer c.net.mu.Unlock()
		for range 3 {
			c.net.slow[[2]raft.ServerAddress{pick(c, rng).address(), pick(c, rng).address()}] = time.Duration(rng.IntN(100)) * time.Millisecond
		}
		return c.net.heal
	}},
	{"full disk", func(c *cluster, rng *rand.Rand) func() {
		m := pick(c, rng)
		m.mem.SetCapacity(max(m.mem.Used(), 1))
		return func() {
			m.mem.SetCapacity(0)
			if n := m.node.Load(); n != nil && n.Err() != nil { // it was full for too long, or a sync has failed
				m.node.Store(nil)
				must(c.t, n.Close())
				c.start(m)
			}
		}
	}},
	{"lost disk", func(c *cluster, rng *rand.Rand) func() {
		m := pick(c, rng)
		c.crash(m, vfs.CrashOptions{Mode: vfs.All})
		m.mem = vfs.NewMem()
		c.start(m) // while it is a member: it must not vote
		if rng.IntN(2) == 0 {
			o := c.others(m)[rng.IntN(2)]
			c.crash(o, vfs.CrashOptions{Mode: vfs.Chaos, Seed: rng.Uint64()})
			time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
			c.start(o)
		}
		return func() {
			ctx := within(c.t, time.Minute)
			must(c.t, c.others(m)[0].node.Load().Remove(ctx, m.id))
			must(c.t, m.node.Load().Join(ctx, string(c.leader().address()), true))
		}
	}},
	{"hand over", func(c *cluster, rng *rand.Rand) func() {
		if n := c.leader().node.Load(); n != nil {
			_ = n.raft.LeadershipTransfer().Error()
		}
		return func() {}
	}},
	{"snapshot", func(c *cluster, rng *rand.Rand) func() {
		if n := pick(c, rng).node.Load(); n != nil {
			_ = n.raft.Snapshot().Error()
		}
		return func() {}
	}},
}

// crashAll cuts the power of all nodes at once.
func (c *cluster) crashAll(rng *rand.Rand) {
	var nodes []*Node
	for _, m := range c.members {
		nodes = append(nodes, m.node.Swap(nil))
		m.net.dead.Store(true)
	}
	for i, m := range c.members {
		m.mem = m.mem.CrashClone(vfs.CrashOptions{Mode: vfs.Chaos, Seed: rng.Uint64()})
		if nodes[i] != nil {
			c.end(nodes[i])
		}
	}
}

// isolate cuts what a node sends, and what it gets.
func (c *cluster) isolate(m *member, sends, gets bool) {
	for _, o := range c.others(m) {
		c.net.cut(m.address(), o.address(), sends)
		c.net.cut(o.address(), m.address(), gets)
	}
}

// TestChaos lets clients work while nodes are killed, lose power, links are cut in one direction or
// both, and disks are full. Each key's history must be linearizable, and the nodes must be equal at the
// end.
func TestChaos(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-replicated.seed=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	operations := int64(100_000)
	if testing.Short() {
		operations = 10_000
	}
	c := newCluster(t, 3, func(o *Options) {
		// Small, so that snapshots, and nodes that need them, come often.
		o.SnapshotBytes, o.TrailingBytes, o.DiskWait = 64<<10, 8<<10, 1500*time.Millisecond
		o.Store.Tuning.MemtableSize = 64 << 10
	})
	c.leader()
	h, counter, began := &history{notDone: map[string]error{}}, new(atomic.Int64), time.Now()
	ended := func() bool {
		if *chaosTime > 0 {
			return time.Since(began) > *chaosTime
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		return int64(len(h.ops)) >= operations
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 16 {
		x := &client{c, h, i, rand.New(rand.NewPCG(seed, uint64(i)+2)), began, counter, map[string]seen{}}
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					x.operate()
				}
			}
		})
	}
	done := map[string]int{}
	for i := 0; i < len(faults) || !ended(); i++ { // each at least once
		f := faults[i%len(faults)]
		if i >= len(faults) {
			f = faults[rng.IntN(len(faults))]
		}
		done[f.name]++
		mend := f.do(c, rng)
		time.Sleep(time.Duration(100+rng.IntN(500)) * time.Millisecond)
		mend()
		c.leader()
		h.mu.Lock()
		before := len(h.ops)
		h.mu.Unlock()
		c.wait("an operation after "+f.name, func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(h.ops) >= before+200
		})
	}
	close(stop)
	clients.Wait()
	t.Logf("faults: %v", done)
	h.check(t)
	c.compare()
}
