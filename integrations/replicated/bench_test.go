package replicated

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/integrations/replicated/internal/devcert"
)

// benchGroup is a group over TCP with TLS, on the disk of the benchmark.
func benchGroup(b *testing.B, n int) []*Node {
	dir := b.TempDir()
	authority, err := devcert.NewAuthority(dir)
	must(b, err)
	var nodes []*Node
	for i := range n {
		id := fmt.Sprintf("n%d", i+1)
		must(b, authority.Issue(dir, id))
		c, err := LoadCredentials(filepath.Join(dir, id+".pem"), filepath.Join(dir, id+".key"), filepath.Join(dir, "ca.pem"))
		must(b, err)
		l, err := ListenTLS("127.0.0.1:0", "", c)
		must(b, err)
		node, err := Open(Options{ID: id, Dir: filepath.Join(dir, id), Network: l})
		must(b, err)
		b.Cleanup(func() { _ = node.Close() })
		nodes = append(nodes, node)
		if i == 0 {
			must(b, node.Bootstrap(context.Background()))
			continue
		}
		first, _ := splitAddress(nodes[0].address())
		must(b, node.Join(context.Background(), first, true))
	}
	_, err = nodes[0].Apply(context.Background(), new(Command).Set([]byte("k"), []byte("v")))
	must(b, err)
	return nodes
}

// BenchmarkSet sets keys of 16 bytes to 200 bytes: in one store without a group, in a group of one, and
// in one of three. All wait for the disk.
func BenchmarkSet(b *testing.B) {
	value := make([]byte, 200)
	for _, clients := range []int{1, 16, 64} {
		var next atomic.Int64
		key := func() []byte { return fmt.Appendf(nil, "%016d", next.Add(1)) }
		run := func(name string, set func(key []byte) error) {
			b.Run(fmt.Sprintf("%s/clients=%d", name, clients), func(b *testing.B) {
				b.SetParallelism(clients)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := set(key()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
		db, err := brock.Open(brock.Options{Dir: filepath.Join(b.TempDir(), "db")})
		must(b, err)
		run("brock", func(key []byte) error { return db.Set(key, value) })
		must(b, db.Close())
		for _, n := range []int{1, 3} {
			leader := leaderOf(benchGroup(b, n))
			run(fmt.Sprintf("nodes=%d", n), func(key []byte) error {
				_, err := leader.Apply(context.Background(), new(Command).Set(key, value))
				return err
			})
		}
	}
}

// BenchmarkView reads a key in a group of three: on the leader and on a follower, the newest state and
// any.
func BenchmarkView(b *testing.B) {
	nodes := benchGroup(b, 3)
	leader := leaderOf(nodes)
	follower := nodes[0]
	if follower == leader {
		follower = nodes[1]
	}
	for name, n := range map[string]*Node{"leader": leader, "follower": follower} {
		for age, maxAge := range map[string]time.Duration{"newest": Newest, "100ms": 100 * time.Millisecond, "any": AnyAge} {
			b.Run(fmt.Sprintf("%s/%s", name, age), func(b *testing.B) {
				b.SetParallelism(16)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						err := n.View(context.Background(), maxAge, func(txn *Reader) error {
							_, err := txn.Get([]byte("k"))
							return err
						})
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// leaderOf waits for a node that leads.
func leaderOf(nodes []*Node) *Node {
	for {
		for _, n := range nodes {
			if n.Status().Leads {
				return n
			}
		}
		time.Sleep(time.Millisecond)
	}
}
