package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/top"
	"github.com/brockdb/brock/internal/disk/filename"
	"github.com/brockdb/brock/internal/version/manifest"
	"github.com/brockdb/brock/vfs"
)

type statsCommand struct {
	Dir      string `arg:"" help:"Directory of the store; with --watch also an address, such as http://localhost:8080/debug/vars, where a process publishes the metrics of its store by expvar."`
	ValueDir string `help:"Directory of the journal and the value segments, if the store has one of its own." placeholder:"DIR"`
	keyFlag
	Recover  bool          `help:"If the journal or MANIFEST is damaged, show what was committed before the damage. Not with --watch."`
	JSON     bool          `help:"Print JSON."`
	EachFile bool          `help:"List each file that data is in: how much of it is dead, and of a run its tier, entries and versions." name:"files"`
	Watch    bool          `help:"Show rates, latencies, files, stalls and pins, again and again. A store is opened as a program opens it, so that its background work is done, and shown. If another process has it open, it is followed: shown are its commits and files, and not what only that process counts."`
	Interval time.Duration `default:"1s" help:"Time between two screens."`
	Count    int           `help:"End after this many screens; 0 = at an interrupt."`
}

// stats describes a store at rest.
type stats struct {
	Dir        string              `json:"dir"`
	ValueDir   string              `json:"valueDir,omitempty"`
	UUID       string              `json:"uuid"`
	Format     string              `json:"format"`
	Created    time.Time           `json:"created,omitzero"`
	Version    uint64              `json:"version"`
	Runs       int                 `json:"runs"`
	RunEntries int64               `json:"runEntries"`
	Unflushed  int64               `json:"unflushedEntries"`   // in the journal only
	Followed   bool                `json:"followed,omitempty"` // another process has it open: live bytes are without those of the journal
	LiveBytes  int64               `json:"liveBytes"`
	DeadBytes  int64               `json:"deadBytes"`
	FreeBytes  int64               `json:"freeBytes"` // left where the values are; -1 = not known
	OpenTime   time.Duration       `json:"openNanoseconds"`
	Files      map[string]fileSums `json:"files"` // by kind
	Keyspaces  []keyspaceStats     `json:"keyspaces,omitempty"`
	EachFile   []fileStats         `json:"eachFile,omitempty"` // runs first, the newest first
}

// fileStats describes a file as brock.FileInfo does.
type fileStats struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	Use        string `json:"use"`
	Bytes      int64  `json:"bytes"`
	Dead       int64  `json:"dead,omitempty"`
	Run        uint64 `json:"run,omitempty"`
	Tier       string `json:"tier,omitempty"`
	Entries    int64  `json:"entries,omitempty"`
	MinVersion uint64 `json:"minVersion,omitempty"`
	MaxVersion uint64 `json:"maxVersion,omitempty"`
}

// keyspaceStats describes a named keyspace; the sizes are estimates.
type keyspaceStats struct {
	Name    string                `json:"name"`
	Entries int64                 `json:"entries"`
	Bytes   int64                 `json:"bytes"` // of keys and values
	Options brock.KeyspaceOptions `json:"options"`
}

type fileSums struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

// store returns the argument in the form of other commands.
func (c *statsCommand) store() *store {
	return &store{Dir: c.Dir, ValueDir: c.ValueDir, keyFlag: c.keyFlag, recover: c.Recover}
}

// Run opens the store read-only, and so replays its journal.
func (c *statsCommand) Run(a *app) error {
	if c.Watch {
		return c.watch(a)
	}
	s := stats{Dir: c.Dir, ValueDir: c.ValueDir}
	begin := time.Now()
	err := c.store().read(a, func(db *brock.DB) error {
		s.OpenTime, s.Followed = time.Since(begin), db.Options().Mode == brock.Follow
		t := db.Metrics().Tree
		s.Version, s.Runs, s.RunEntries, s.Unflushed = t.Version, t.Runs, t.RunEntries, t.MemtableEntries
		s.LiveBytes, s.DeadBytes = t.LiveBytes, t.DeadBytes
		for ks := range db.Keyspaces() {
			entries, bytes := ks.EstimateSize(nil, nil)
			s.Keyspaces = append(s.Keyspaces, keyspaceStats{ks.Name(), entries, bytes, ks.Options()})
		}
		if c.EachFile {
			files, err := brock.Files(db)
			if err != nil {
				return err
			}
			for _, f := range files {
				s.EachFile = append(s.EachFile, fileStats(f))
			}
		}
		return s.lookAtFiles()
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(a.out, s)
	}
	s.print(a)
	return nil
}

// watch shows a store that this process opens or follows, or one whose process publishes
// its metrics.
func (c *statsCommand) watch(a *app) error {
	if c.Recover {
		return wrongUsage("--watch opens the store for writing: it takes no --recover")
	}
	if c.JSON || c.EachFile || c.Interval < 10*time.Millisecond || c.Count < 0 {
		return wrongUsage("--watch needs an --interval of at least 10ms, no negative --count, and no --json or --files")
	}
	config := top.Config{Name: c.Dir, Interval: c.Interval, Count: c.Count, Out: a.out, Terminal: a.terminal}
	if strings.HasPrefix(c.Dir, "http://") || strings.HasPrefix(c.Dir, "https://") {
		config.Source = top.HTTP(c.Dir)
		return top.Watch(a.ctx, config)
	}
	show := func(db *brock.DB) error {
		config.Followed = db.Options().Mode == brock.Follow
		config.Source = func(ctx context.Context) (brock.Metrics, error) {
			_, err := db.Refresh(ctx) // does nothing unless db follows
			return db.Metrics(), err
		}
		return top.Watch(a.ctx, config)
	}
	err := c.store().change(a, show)
	if errors.Is(err, brock.ErrLocked) {
		err = c.store().follow(a, err, show)
	}
	if errors.Is(err, brock.ErrLocked) {
		return fmt.Errorf("%w; it can't be followed here: have that process publish its metrics by expvar, and name the address", err)
	}
	return err
}

func (s *stats) lookAtFiles() error {
	super, err := manifest.ReadSuper(vfs.OS(), s.Dir)
	if err != nil {
		return err
	}
	s.UUID = fmt.Sprintf("%x", super.UUID)
	s.Format = fmt.Sprintf("%d.%d", super.Major, super.Minor)
	if !super.Encrypted() { // else it takes the keys to know
		s.Created = time.UnixMilli(super.Created).UTC()
	}
	s.Files = make(map[string]fileSums)
	dirs := storeDirs(s.Dir, s.ValueDir)
	if s.FreeBytes, err = vfs.OS().Free(dirs[len(dirs)-1]); err != nil {
		s.FreeBytes = -1
	}
	for _, dir := range dirs {
		if err := s.addFiles(dir); err != nil {
			return err
		}
	}
	return nil
}

func (s *stats) addFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ok := filename.Parse(e.Name())
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if !ok || err != nil {
			continue
		}
		sums := s.Files[name.Kind.String()]
		s.Files[name.Kind.String()] = fileSums{sums.Count + 1, sums.Bytes + info.Size()}
	}
	return nil
}

func (s *stats) print(a *app) {
	created := "encrypted"
	if !s.Created.IsZero() {
		created = "created " + s.Created.Format(time.RFC3339)
	}
	fmt.Fprintf(a.out, "store      %s, format %s, %s\n", s.UUID, s.Format, created)
	fmt.Fprintf(a.out, "version    %s\n", human.Count(int64(s.Version)))
	fmt.Fprintf(a.out, "entries    %s in %s, %s only in the journal\n", human.Count(s.RunEntries), human.Things(int64(s.Runs), "run"), human.Count(s.Unflushed))
	beside := ""
	if s.Followed {
		beside = ", beside the journal"
	}
	fmt.Fprintf(a.out, "data       %s live, %s dead%s\n", human.Bytes(s.LiveBytes), human.Bytes(s.DeadBytes), beside)
	for _, k := range s.Keyspaces {
		fmt.Fprintf(a.out, "keyspace   %s: about %s, %s\n", printable([]byte(k.Name)), human.Things(k.Entries, "entry"), human.Bytes(k.Bytes))
	}
	for _, k := range []filename.Kind{filename.Run, filename.Value, filename.Journal, filename.Forwarding, filename.Manifest, filename.Super, filename.Keyring, filename.Lock} {
		if f := s.Files[k.String()]; f.Count > 0 {
			fmt.Fprintf(a.out, "%-10s %s in %s\n", k, human.Bytes(f.Bytes), human.Things(int64(f.Count), "file"))
		}
	}
	if s.FreeBytes >= 0 {
		fmt.Fprintf(a.out, "disk       %s free\n", human.Bytes(s.FreeBytes))
	}
	fmt.Fprintf(a.out, "opened in  %s\n", human.Duration(s.OpenTime))
	for _, f := range s.EachFile {
		fmt.Fprintf(a.out, "%10s  %-10s %-10s %s", human.Bytes(f.Bytes), f.Name, f.Kind, f.Use)
		if f.Dead > 0 {
			fmt.Fprintf(a.out, ", %s dead", human.Bytes(f.Dead))
		}
		if f.Entries > 0 && f.Run == 0 {
			fmt.Fprintf(a.out, ", %s", human.Things(f.Entries, "value"))
		}
		if f.Run > 0 {
			fmt.Fprintf(a.out, ", %s run %d: %s, versions %d to %d", f.Tier, f.Run, human.Things(f.Entries, "entry"), f.MinVersion, f.MaxVersion)
		}
		fmt.Fprintln(a.out)
	}
}
