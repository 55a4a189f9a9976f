package replicated

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/brockdb/brock"
	raftstore "github.com/brockdb/brock/integrations/raft"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Options of a node. ID, Dir and Network must be set.
type Options struct {
	ID      string           // of the node, for all time; see Join for a node that has lost its directory
	Dir     string           // belongs to the node alone
	Network raft.StreamLayer // see ListenTLS; Close closes it

	// Store is a template for the node's stores: FS, Keys, MemoryLimit, DiskLimit, FeedRetention,
	// KeyspaceDefaults, Events, Logger and Tuning are used, and must be alike on all nodes where
	// they say what is kept. Dir, ValueDir, InMemory, Now, Mode and a default TTL must not be set.
	Store brock.Options

	Heartbeat     time.Duration // without one for so long a node asks for an election; 0 = 1 s, at least 50 ms
	RPCTimeout    time.Duration // of one call between nodes; 0 = 10 s
	DiskWait      time.Duration // a call of the disk that takes longer, or a full disk, stops the node; 0 = 10 s
	SnapshotBytes int64         // of commands after which a snapshot is taken; 0 = 64 MiB
	TrailingBytes int64         // of commands that stay in the log for nodes that lag; 0 = 64 MiB
	SwapWait      time.Duration // how long readers may go on in a state that was replaced; 0 = 30 s

	LogOutput io.Writer // what raft and the node have to say, at level info; nil = nothing

	damage func(error) // called when a store has found damage, or can't write any more
}

// withDefaults fills in zero fields, and checks the others.
func (o Options) withDefaults() (Options, error) {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.Heartbeat, time.Second}, {&o.RPCTimeout, 10 * time.Second}, {&o.DiskWait, 10 * time.Second}, {&o.SwapWait, 30 * time.Second}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	for _, d := range []*int64{&o.SnapshotBytes, &o.TrailingBytes} {
		if *d == 0 {
			*d = 64 << 20
		}
	}
	s := &o.Store
	switch {
	case o.ID == "" || o.Dir == "" || o.Network == nil:
		return o, fmt.Errorf("replicated: ID, Dir and Network must be set: %w", brock.ErrInvalid)
	case len(o.ID) > 256 || len(o.Network.Addr().String()) > 256:
		return o, fmt.Errorf("replicated: ID and address have at most 256 bytes: %w", brock.ErrInvalid)
	case o.Heartbeat < 50*time.Millisecond || o.RPCTimeout < 0 || o.DiskWait < 0 || o.SwapWait < 0 || o.SnapshotBytes < 0 || o.TrailingBytes < 0:
		return o, fmt.Errorf("replicated: a time or size is too small: %w", brock.ErrInvalid)
	case s.Dir != "" || s.ValueDir != "" || s.InMemory || s.Now != nil || s.Mode != brock.ReadWrite || s.MustExist || s.MustBeNew:
		return o, fmt.Errorf("replicated: Store has a field that the node sets: %w", brock.ErrInvalid)
	case s.KeyspaceDefaults.TTL != 0:
		// The time of an entry would be that of the node that applies it.
		return o, fmt.Errorf("replicated: a default TTL: give each set its expiry: %w", brock.ErrInvalid)
	}
	return o, nil
}

// storeOptions are the options of a state or checkpoint in dir.
func (o *Options) storeOptions(dir string, clock *atomic.Uint64) brock.Options {
	s := o.Store
	s.Dir, s.Durability = dir, brock.Buffered
	s.Now = func() time.Time { return time.UnixMilli(int64(clock.Load())) }
	s.Events = o.events()
	return s
}

// logOptions are the options of the store of the raft log.
func (o *Options) logOptions(dir string) brock.Options {
	s := raftstore.TuneOptions(dir)
	s.FS, s.Keys, s.Logger, s.Events = o.Store.FS, o.Store.Keys, o.Store.Logger, o.events()
	return s
}

// events are the user's, and tell the node of damage.
func (o *Options) events() brock.Events {
	e := o.Store.Events
	corruption, background := e.Corruption, e.BackgroundError
	e.Corruption = func(c *brock.CorruptionError) {
		if o.damage != nil {
			o.damage(c)
		}
		if corruption != nil {
			corruption(c)
		}
	}
	e.BackgroundError = func(err error) {
		if o.damage != nil && errors.Is(err, brock.ErrStopped) {
			o.damage(err)
		}
		if background != nil {
			background(err)
		}
	}
	return e
}

// maxAppendEntries is how many entries a request of raft has at most.
const maxAppendEntries = 64

// raftConfig are raft's options: those that matter are set, not inherited.
func (o *Options) raftConfig(logger hclog.Logger) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(o.ID)
	c.HeartbeatTimeout, c.ElectionTimeout = o.Heartbeat, o.Heartbeat
	c.LeaderLeaseTimeout = o.Heartbeat / 2
	c.CommitTimeout = min(c.CommitTimeout, o.Heartbeat/4)
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = true
	c.NoSnapshotRestoreOnStart = true // the state is a store that is opened
	c.ShutdownOnRemove = false        // a node that was removed still serves old reads
	c.NoLegacyTelemetry = true
	c.SnapshotThreshold = 1 << 62 // Node.housekeep takes snapshots, by bytes
	c.SnapshotInterval = 24 * time.Hour
	c.TrailingLogs = 1024 // until Node.tuneTrailing knows how large entries are
	c.Logger = logger
	return c
}
