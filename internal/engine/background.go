package engine

import (
	"context"

	"github.com/brockdb/brock/internal/base/jobs"
	"github.com/brockdb/brock/internal/copies/follow"
	"github.com/brockdb/brock/internal/lsm/policy"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/internal/view"
	"github.com/brockdb/brock/internal/view/files"
)

// background runs the work of the tasks, and the work that users ask for (request.go).
type background struct {
	cfg        *Config
	log        *manifest.Log
	views      *view.Set
	files      *files.Opener
	unflushed  *files.Unflushed
	life       *lifetime
	tasks      *tasks
	planner    *planner
	disk       *diskSpace
	expiry     *expiry
	writer     *writer
	searcher   *searcher
	flusher    *flusher
	compactor  *compactor
	collector  *collector
	clustering *clustering
	scrubber   *scrubber
	cuts       *cuts
	rekey      func(context.Context) error // removes old data keys
	copies     *copying
	follower   *follow.Follower // nil unless the store of another process is followed
}

// prepare makes the tasks.
func (b *background) prepare() {
	pool := b.cfg.Jobs
	b.tasks.flush = pool.Task(jobs.Flush, "flush", b.flusher.run)
	b.tasks.compact = pool.Task(jobs.Compaction, "compact", func(ctx context.Context) error { return b.compactor.run(ctx, false) })
	b.tasks.collect = pool.Task(jobs.Cleanup, "collect", b.collector.run)
	b.tasks.seal = pool.Task(jobs.Flush, "seal", func(ctx context.Context) error { return b.cfg.Exclusive(ctx, b.writer.sealAny) })
	if b.cfg.Keyring != nil {
		b.tasks.rekey = pool.Task(jobs.Cleanup, "rekey", b.rekey)
	}
	b.tasks.poll = pool.Delayed(pool.Task(jobs.Flush, "poll", b.disk.poll), policy.DiskPoll)
	b.tasks.idle = pool.Delayed(pool.Task(jobs.Compaction, "idle", b.idle), b.cfg.IdleAfter)
	forget := pool.Task(jobs.Brief, "forget", func(context.Context) error { b.files.Open.Bits.End(); return nil })
	b.files.Open.Bits.EndBy(pool.Alarm(forget))
	b.tasks.scrub = pool.Alarm(pool.Task(jobs.Cleanup, "scrub", b.scrubber.run))
	b.tasks.expiry = pool.Alarm(pool.Task(jobs.Compaction, "expire", b.expire))
}

// start lets background work begin. Call it when cfg.Exclusive can be called.
func (b *background) start() {
	b.disk.survey()
	if len(b.unflushed.Found()) > policy.ReplayedSegments {
		b.tasks.seal.Kick()
	}
	b.tasks.kick()
	b.expiry.await()
	b.scrubber.start()
}

// idle runs once writers have been silent for a while. It compacts what is in memory and in
// upper runs into the base, as far as policy finds that worth it, and collects garbage. Then
// reads are as fast as they can be, and no work is left.
func (b *background) idle(ctx context.Context) error {
	defer b.expiry.await() // at rest, expired entries are removed sooner
	if err := b.cfg.Exclusive(ctx, b.writer.sealIdle); err != nil {
		return err
	}
	if err := b.compactor.rest(ctx, b.flusher.run); err != nil {
		return err
	}
	// A compaction finds garbage to collect, and a collection leaves remaps to heal.
	for again := true; again; {
		if err := b.compactor.run(ctx, true); err != nil {
			return err
		}
		var err error
		if again, err = b.collector.all(ctx, atIdle); err != nil {
			return err
		}
		again = again || b.clustering.run(ctx)
	}
	return nil
}

// expire removes what has expired from memtable and runs, if that is due. At rest it also
// collects the garbage; while clients write, that waits for the next rest.
func (b *background) expire(ctx context.Context) error {
	if b.life.failed() != nil {
		return nil // it would fail again, and was reported
	}
	idle := b.expiry.idle()
	defer b.expiry.await()
	if at := tableExpiryDue(b.views.Current().Active(), idle); at != 0 && at <= b.cfg.unixMilli() {
		if err := b.cfg.Exclusive(ctx, b.writer.sealAny); err != nil {
			return err
		}
	}
	if idle {
		return b.idle(ctx)
	}
	if err := b.flusher.run(ctx); err != nil {
		return err
	}
	return b.compactor.run(ctx, false)
}
