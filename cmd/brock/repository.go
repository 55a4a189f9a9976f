package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/progress"
	"github.com/brockdb/brock/repository"
)

type repositoryCommand struct {
	List    repositoryList    `cmd:"" default:"withargs" help:"List the backups, oldest first."`
	Verify  repositoryVerify  `cmd:"" help:"Check that every backup can be restored."`
	Restore repositoryRestore `cmd:"" help:"Make the store of a backup in a new directory."`
	Prune   repositoryPrune   `cmd:"" help:"Remove backups, and files that only they need. Without a rule all backups stay."`
}

// repositoryDir is the argument of these commands.
type repositoryDir struct {
	Dir string `arg:"" help:"Directory of the repository."`
}

// open returns the repository, which must be there.
func (r *repositoryDir) open() (repository.Deleter, error) {
	if info, err := os.Stat(r.Dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s: not a directory", r.Dir)
	}
	info, err := os.Stat(filepath.Join(r.Dir, "backups"))
	if (errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir()) && !r.begun() {
		return nil, fmt.Errorf("no repository in %s", r.Dir)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return repository.Dir(nil, r.Dir), err
}

// objectName is the name of a file in a repository, also of one that was not finished.
var objectName = regexp.MustCompile("^[0-9a-f]{64}-[a-z0-9]{10}(-[A-Z0-9]{8}[.]part)?$")

// begun reports whether the first backup has failed, and left files that prune can remove. The
// objects of other programs, such as git, have other names.
func (r *repositoryDir) begun() bool {
	files, err := os.ReadDir(filepath.Join(r.Dir, "objects"))
	strange := func(f os.DirEntry) bool { return f.IsDir() || !objectName.MatchString(f.Name()) }
	return err == nil && len(files) > 0 && !slices.ContainsFunc(files, strange)
}

// portion shows the progress of work whose size is known only once it has begun.
type portion struct {
	out    *progress.Output
	name   string
	work   *progress.Work
	before int64
}

func (a *app) portion(name string) *portion { return &portion{out: a.progress, name: name} }

// done shows that done bytes of total are done.
func (p *portion) done(done, total int64) {
	if p.work == nil {
		p.work = p.out.Start(p.name, total)
	}
	p.work.Add(done - p.before)
	p.before = done
}

// end ends the work. It may be called more than once.
func (p *portion) end() {
	if p.work != nil {
		p.work.End()
		p.work = nil
	}
}

type repositoryList struct {
	repositoryDir
	JSON bool `help:"Print a line of JSON for each backup."`
}

// Run prints a line for each backup.
func (c *repositoryList) Run(a *app) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	list, err := repository.List(a.ctx, s)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, b := range list {
		if c.JSON {
			err = errors.Join(err, writeLine(a.out, b))
			continue
		}
		fmt.Fprintf(w, "%s\tversion %d\t%s in %s\n", b.ID, b.Version, human.Bytes(b.Bytes), human.Things(int64(b.Files), "file"))
	}
	return errors.Join(err, w.Flush())
}

type repositoryVerify struct {
	repositoryDir
	ID    string `help:"Only this backup."`
	Quick bool   `help:"Check only that every file is there and has its size."`
	JSON  bool   `help:"Print a line of JSON for each problem, then one with what was verified."`
}

// Run reports every problem on standard output.
func (c *repositoryVerify) Run(a *app) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	p := a.portion("verify")
	v, err := repository.Verify(a.ctx, s, repository.VerifyOptions{ID: c.ID, Quick: c.Quick, Progress: p.done}, func(damage *brock.CorruptionError) {
		if c.JSON {
			_ = writeLine(a.out, problem{File: damage.File, Offset: damage.Offset, Reason: damage.Reason}) // the exit code tells, too
			return
		}
		fmt.Fprintln(a.out, message(damage))
	})
	p.end()
	if err != nil && !errors.Is(err, brock.ErrCorrupt) {
		return err
	}
	files, backups := human.Things(int64(v.Objects), "file"), human.Things(int64(v.Backups), "backup")
	switch {
	case c.JSON:
		err = errors.Join(err, writeLine(a.out, v))
	case err == nil && c.Quick:
		fmt.Fprintf(a.out, "all %s in %s of %s are there; they were not read\n", human.Bytes(v.Bytes), files, backups)
	case err == nil:
		fmt.Fprintf(a.out, "all %s in %s of %s are right\n", human.Bytes(v.Bytes), files, backups)
	}
	if err != nil {
		return silent{err}
	}
	return nil
}

type repositoryRestore struct {
	repositoryDir
	To string `arg:"" help:"Directory of the store. It must not exist."`
	ID string `help:"The backup; default: the newest one."`
	keyFlag
}

// Run makes a store. With a key file it also checks an encrypted store by opening it.
func (c *repositoryRestore) Run(a *app) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	p := a.portion("restore")
	defer p.end()
	b, err := repository.Restore(a.ctx, s, c.ID, c.To, repository.RestoreOptions{Keys: c.provider(), Progress: p.done})
	if err != nil {
		return c.missing("the backup", err)
	}
	_, err = fmt.Fprintf(a.out, "%s is the store as of version %d, backed up at %s\n", c.To, b.Version, b.Time.Format(time.RFC3339))
	return err
}

type repositoryPrune struct {
	repositoryDir
	Last      int           `help:"Keep the newest backups, this many."`
	Within    time.Duration `help:"Keep backups that are at most this much older than the newest one, such as 48h."`
	Hourly    int           `help:"Keep the newest backup of an hour, for this many hours that have one."`
	Daily     int           `help:"The same of days, in UTC."`
	Weekly    int           `help:"The same of weeks."`
	Monthly   int           `help:"The same of months."`
	Yearly    int           `help:"The same of years."`
	Store     string        `help:"Only backups of the store with this uuid; default: of each store, by the same rules." placeholder:"UUID"`
	Remove    []string      `help:"Remove this backup whatever the rules say, even if it can't be read." placeholder:"ID"`
	DryRun    bool          `help:"Only say what would be removed."`
	NoBackups bool          `help:"Free the space at once. Only if nobody makes a backup meanwhile. Otherwise another prune, an hour later or more, frees it."`
	JSON      bool          `help:"Print JSON."`
}

// Run removes backups that no rule keeps.
func (c *repositoryPrune) Run(a *app) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	keep := repository.Keep{Last: c.Last, Within: c.Within, Hourly: c.Hourly, Daily: c.Daily, Weekly: c.Weekly, Monthly: c.Monthly, Yearly: c.Yearly}
	done, err := repository.Prune(a.ctx, s, keep, repository.PruneOptions{Store: c.Store, Remove: c.Remove, DryRun: c.DryRun, NoBackups: c.NoBackups})
	if err != nil {
		return err
	}
	if c.JSON {
		done.Removed = append([]repository.Info{}, done.Removed...) // a script wants a list, also of nothing
		return writeJSON(a.out, done)
	}
	for _, b := range done.Removed {
		fmt.Fprintln(a.out, b.ID)
	}
	removed, waiting := "removed", "can be deleted by a prune in an hour or later"
	if c.DryRun {
		removed, waiting = "would be removed", "are of these alone"
	}
	fmt.Fprintf(a.out, "%s %s, %d stay; %s in %s deleted, %s in %d %s\n", human.Things(int64(len(done.Removed)), "backup"), removed, done.Kept,
		human.Bytes(done.DeletedBytes), human.Things(int64(done.Deleted), "file"), human.Bytes(done.WaitingBytes), done.Waiting, waiting)
	return nil
}
