package otelstorage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// storeName is the directory of the store in Config.Directory. A mount point has other entries,
// such as lost+found, and can't be renamed, so the store has a directory of its own.
const storeName = "brock"

var (
	errNotStarted = errors.New("the storage extension is not started")
	errShutdown   = errors.New("the storage extension is shut down")
)

// brockStorage is the extension. The collector starts extensions before all other components and
// shuts them down after all others, so clients are used only in between.
type brockStorage struct {
	set extension.Settings
	cfg *Config
	fs  vfs.FS // of the store; nil = the system's

	ctx     context.Context // ends with Shutdown
	cancel  func()          // ends ctx
	stopped chan struct{}   // a store has stopped; room for one
	ended   chan struct{}   // closed when keepOpen has ended

	mu     sync.Mutex           // held over Start, Shutdown, GetClient and a reopening, and guards:
	store  *store               // nil before Start, and after a Start that has failed
	closed bool                 // Shutdown was called
	shared map[string]*keyspace // by name, of all clients so far
}

var _ storage.Extension = (*brockStorage)(nil)

func newExtension(set extension.Settings, cfg *Config) *brockStorage {
	s := &brockStorage{set: set, cfg: cfg, shared: make(map[string]*keyspace),
		stopped: make(chan struct{}, 1), ended: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Start opens the store, and creates it if there is none. host gets the status of the extension
// from then on. A store that stops is opened again until Shutdown.
func (s *brockStorage) Start(ctx context.Context, host component.Host) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errShutdown
	case s.store != nil:
		return errors.New("the storage extension is started already")
	}
	if s.cfg.CreateDirectory {
		permissions, err := s.cfg.permissions()
		if err != nil {
			return err
		}
		if err := os.MkdirAll(s.cfg.Directory, permissions); err != nil {
			return fmt.Errorf("create directory: %w", err)
		}
	}
	opened, err := s.open(ctx, host)
	if err != nil {
		return err
	}
	s.store = opened
	go s.keepOpen(host)
	return nil
}

// storeOptions returns the options of the store. Its events go to the log and to host.
func (s *brockStorage) storeOptions(host component.Host) brock.Options {
	o := brock.Options{
		Dir:         filepath.Join(s.cfg.Directory, storeName),
		FS:          s.fs,
		MemoryLimit: s.cfg.MemoryLimitMiB << 20,
		DiskLimit:   s.cfg.DiskLimitMiB << 20,
		Durability:  durabilities[s.cfg.Durability],
		LockWait:    s.cfg.Timeout,
		Logger:      slog.New(zapslog.NewHandler(s.set.Logger.Core())),
	}
	o.KeyspaceDefaults.Compression = compressions[s.cfg.Compression]
	o.Tuning.SegmentSize = segmentSize(o.DiskLimit)
	if s.cfg.EncryptionKeyFile != "" {
		o.Keys = brock.KeyFile(s.cfg.EncryptionKeyFile)
	}
	o.Events.BackgroundError = func(error) { s.noteStopped() }
	o.Events.DiskSpace = func(i brock.DiskSpaceInfo) {
		if i.Full {
			err := fmt.Errorf("%w: %w", storage.ErrStorageFull, i.Err)
			componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(err))
		} else {
			componentstatus.ReportStatus(host, componentstatus.NewEvent(componentstatus.StatusOK))
		}
	}
	return o
}

// openStore opens the store, or replaces a damaged one if Recreate is set.
func (s *brockStorage) openStore(ctx context.Context, o brock.Options) (*brock.DB, error) {
	db, err := brock.OpenContext(ctx, o)
	if s.cfg.Recreate && errors.Is(err, brock.ErrCorrupt) {
		if err := s.recreateStore(ctx, o, err); err != nil {
			return nil, err
		}
		db, err = brock.OpenContext(ctx, o)
	}
	return db, err
}

// recreateStore moves the damaged store aside, and puts a new one in its place, of what can still be
// proved. If nothing can, there is no store in o.Dir when it returns nil. After an error or a crash
// the damaged store is where it was, except where a system can't exchange directories.
func (s *brockStorage) recreateStore(ctx context.Context, o brock.Options, damage error) error {
	base := o.Dir + "." + time.Now().UTC().Format("20060102T150405.000Z0700")
	aside, fresh := base+".damaged", base+".salvaged"
	log := s.set.Logger.With(zap.String("directory", o.Dir), zap.String("damaged", aside), zap.NamedError("damage", damage))
	to := o
	to.Dir = fresh
	summary, err := brock.Salvage(ctx, o, to, nil)
	switch {
	case ctx.Err() != nil || isFull(err):
		// Later there may be more to salvage.
		return errors.Join(damage, fmt.Errorf("salvage the store: %w", err))
	case err != nil:
		log.Error("The store is damaged, and nothing can be salvaged. An empty one takes its place.", zap.Error(err))
		return moveStore(o.Dir, aside, damage)
	}
	log.Warn("The store is damaged. A new one has what could be salvaged.",
		zap.Strings("storages", summary.Keyspaces), zap.Uint64("keys", summary.Keys),
		zap.Uint64("found", summary.Found), zap.Int("losses", summary.Losses))
	if err := brock.Replace(o.Dir, fresh); err == nil {
		return moveStore(fresh, aside, damage)
	}
	// In two steps: not all systems can exchange directories, and SUPER may be missing.
	if err := moveStore(o.Dir, aside, damage); err != nil {
		return err
	}
	return moveStore(fresh, o.Dir, damage)
}

// moveStore renames the directory of a store.
func moveStore(from, to string, damage error) error {
	if err := os.Rename(from, to); err != nil {
		return errors.Join(damage, fmt.Errorf("replace the damaged store: %w", err))
	}
	return nil
}

// syncRegularly makes buffered writes durable every SyncInterval until the function that it
// returns is called.
func (s *brockStorage) syncRegularly(db *brock.DB) (end func()) {
	if s.cfg.Durability != durabilityBuffered || s.cfg.SyncInterval == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	// Here and not in the goroutine, which may begin after a write.
	synced := db.Version()
	go func() {
		defer close(done)
		tick := time.NewTicker(s.cfg.SyncInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			version := db.Version()
			if version == synced {
				continue // an idle collector must not wake a disk
			}
			// A refused one, as on a full disk, is tried again at the next tick.
			err := db.Sync(ctx)
			switch {
			case err == nil:
				synced = version
			case errors.Is(err, brock.ErrStopped):
				s.noteStopped()
				<-ctx.Done()
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// Shutdown closes the store, which makes all writes durable. Calls of clients return an error
// from then on. A second Shutdown does nothing.
func (s *brockStorage) Shutdown(context.Context) error {
	s.cancel() // a reopening that is under way holds mu
	started, err := s.closeStore()
	if started {
		<-s.ended
	}
	return err
}

// closeStore closes the store for good, and reports whether there was one.
func (s *brockStorage) closeStore() (started bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.store == nil {
		s.closed = true
		return s.store != nil, nil
	}
	s.closed = true
	defer s.store.end()
	return true, s.store.close()
}

// GetClient returns a client for the storage of this name that a component has. Clients for the
// same storage share what is in it, also those of an earlier process. The extension must be
// started. storage.ErrStorageFull says that there is no room for a new storage.
func (s *brockStorage) GetClient(
	ctx context.Context, kind component.Kind, id component.ID, storageName string,
) (storage.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errShutdown
	case s.store == nil:
		return nil, errNotStarted
	}
	name := keyspaceName(kind, id, storageName)
	ks := s.shared[name]
	if ks == nil {
		stored, err := s.store.db.Keyspace(name)
		if err != nil {
			return nil, fmt.Errorf("storage %s: %w", name, translate(err))
		}
		opened := &openKeyspace{Keyspace: stored, store: s.store}
		if err := s.takeOver(ctx, kind, id, storageName, opened); err != nil {
			return nil, fmt.Errorf("storage %s: take over the one of file_storage: %w", name, err)
		}
		ks = &keyspace{noteStopped: s.noteStopped}
		ks.now.Store(opened)
		s.shared[name] = ks
	}
	return &client{keyspace: ks}, nil
}
