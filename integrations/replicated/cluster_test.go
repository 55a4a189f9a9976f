package replicated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/faultfs"
	"github.com/brockdb/brock/vfs"
	"github.com/hashicorp/raft"
)

// member is a node of a cluster in this process, with a disk of its own.
type member struct {
	id   string
	mem  *vfs.Mem
	disk *faultfs.FS // over mem
	net  *layer
	node atomic.Pointer[Node]
}

func (m *member) address() raft.ServerAddress { return raft.ServerAddress(m.id + ":1") }

// cluster is nodes in this process, on disks in memory that can crash.
type cluster struct {
	t       testing.TB
	net     *network
	members []*member
	options func(o *Options) // changes the options of each node
	ending  sync.WaitGroup
	alone   bool // start opens nodes alone
}

// newCluster starts n nodes that are a group.
func newCluster(t testing.TB, n int, options func(o *Options)) *cluster {
	c := &cluster{t: t, net: newNetwork(), options: options}
	t.Cleanup(c.close)
	for i := range n {
		m := c.add(fmt.Sprintf("n%d", i+1))
		c.start(m)
		if i == 0 {
			must(t, m.node.Load().Bootstrap(context.Background()))
		} else {
			must(t, m.node.Load().Join(within(t, time.Minute), string(c.members[0].address()), true))
		}
	}
	return c
}

// add adds a member that was not started.
func (c *cluster) add(id string) *member {
	m := &member{id: id, mem: vfs.NewMem()}
	c.members = append(c.members, m)
	return m
}

// start opens the node of a member on the disk that it has.
func (c *cluster) start(m *member) {
	c.t.Helper()
	n, err := c.tryStart(m)
	if err != nil {
		c.t.Fatalf("start %s: %v", m.id, err)
	}
	m.node.Store(n)
}

func (c *cluster) tryStart(m *member) (*Node, error) {
	m.disk = faultfs.New(m.mem, faultfs.Options{})
	m.net = c.net.listen(m.address())
	o := Options{
		ID: m.id, Dir: "node", Network: m.net, Heartbeat: 150 * time.Millisecond, RPCTimeout: time.Second,
		DiskWait: 5 * time.Second, SwapWait: time.Second,
		Store: brock.Options{FS: m.disk, MemoryLimit: 4 << 20},
	}
	if os.Getenv("REPLICATED_LOG") != "" {
		o.LogOutput = os.Stderr
	}
	if c.options != nil {
		c.options(&o)
	}
	return openNode(o, c.alone)
}

// crash ends a node as kill -9 does (vfs.All) or as a power loss does. What it answers from now on
// counts as not answered: callers look at member.node.
func (c *cluster) crash(m *member, how vfs.CrashOptions) {
	n := m.node.Swap(nil)
	if n == nil {
		return
	}
	// Before the disk is copied: what it sends later is of a disk that is not there any more.
	m.net.dead.Store(true)
	m.mem = m.mem.CrashClone(how)
	c.end(n)
}

// end closes a node in the background.
func (c *cluster) end(n *Node) {
	n.stop(brock.ErrClosed)
	c.ending.Add(1)
	go func() {
		defer c.ending.Done()
		_ = n.closeStores()
	}()
}

func (c *cluster) close() {
	for _, m := range c.members {
		if n := m.node.Swap(nil); n != nil {
			c.end(n)
		}
	}
	c.ending.Wait()
}

// leader waits for a node that leads.
func (c *cluster) leader() *member {
	c.t.Helper()
	var found *member
	c.wait("a leader", func() bool {
		for _, m := range c.members {
			if n := m.node.Load(); n != nil && n.Err() == nil && n.raft.State() == raft.Leader {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// others are the members but for one.
func (c *cluster) others(m *member) (rest []*member) {
	for _, o := range c.members {
		if o != m {
			rest = append(rest, o)
		}
	}
	return rest
}

// wait waits for something that must come.
func (c *cluster) wait(what string, ok func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, m := range c.members {
				if n := m.node.Load(); n != nil {
					c.t.Logf("%s: %+v", m.id, n.Status())
				}
			}
			c.t.Fatalf("%s does not come", what)
		}
	}
}

// compare checks that all nodes come to the same state, key by key.
func (c *cluster) compare() {
	c.t.Helper()
	index := c.set("compared", "yes")
	type pair struct {
		version uint64
		value   string
	}
	read := func(n *Node) map[string]pair {
		all := map[string]pair{}
		must(c.t, n.View(context.Background(), AnyAge, func(r *Reader) error {
			for k := range r.state.db.Keyspaces() {
				for item, err := range r.Txn.In(k).All() {
					if err != nil {
						return err
					}
					value, err := item.Value()
					if err != nil {
						return err
					}
					all[k.Name()+"/"+string(item.Key())] = pair{item.Version(), string(value)}
				}
			}
			for item, err := range r.All() {
				if err != nil {
					return err
				}
				value, err := item.Value()
				if err != nil {
					return err
				}
				all[string(item.Key())] = pair{item.Version(), string(value)}
			}
			return nil
		}))
		return all
	}
	// A command that was sent twice may still be on its way: compare when all are at one entry.
	var states []map[string]pair
	var digests [][32]byte
	c.wait("all nodes to be at one entry", func() bool {
		states, digests = nil, nil
		for _, m := range c.members {
			n := m.node.Load()
			before, _, err := n.Digest(context.Background())
			must(c.t, err)
			states = append(states, read(n))
			at, d, err := n.Digest(context.Background())
			must(c.t, err)
			if before < index || at != before {
				return false
			}
			index, digests = at, append(digests, d)
		}
		again, _, err := c.members[0].node.Load().Digest(context.Background())
		must(c.t, err)
		return again == index
	})
	for i, m := range c.members {
		if len(states[i]) != len(states[0]) {
			c.t.Errorf("%s has %d keys, %s %d", m.id, len(states[i]), c.members[0].id, len(states[0]))
		}
		for key, p := range states[0] {
			if other := states[i][key]; other != p {
				c.t.Errorf("%s: %s has %q of version %d, %s %q of %d", key, m.id, other.value, other.version, c.members[0].id, p.value, p.version)
			}
		}
		if digests[i] != digests[0] {
			c.t.Errorf("%s has another digest than %s", m.id, c.members[0].id)
		}
	}
}

// any returns a node that runs.
func (c *cluster) any() *Node {
	c.t.Helper()
	for _, m := range c.members {
		if n := m.node.Load(); n != nil && n.Err() == nil {
			return n
		}
	}
	c.t.Fatal("no node runs")
	return nil
}

// set sets a key, and returns the version.
func (c *cluster) set(key, value string) uint64 {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	v, err := c.any().Apply(ctx, new(Command).Set([]byte(key), []byte(value)))
	if err != nil {
		c.t.Fatalf("set %s: %v", key, err)
	}
	return v
}

// get reads a key on a node; "" is absent.
func get(n *Node, maxAge time.Duration, key string) (value string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	err = n.View(ctx, maxAge, func(txn *Reader) error {
		item, err := txn.Get([]byte(key))
		if errors.Is(err, brock.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		b, err := item.Value()
		value = string(b)
		return err
	})
	return value, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestGroupOfThree(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.leader()
	for i := range 100 {
		c.set(fmt.Sprintf("k%d", i%10), fmt.Sprint(i))
	}
	for _, m := range c.members {
		for i := range 10 {
			if v, err := get(m.node.Load(), Newest, fmt.Sprintf("k%d", i)); err != nil || v != fmt.Sprint(90+i) {
				t.Errorf("%s: k%d is %q, %v", m.id, i, v, err)
			}
		}
	}
	c.compare()
}
