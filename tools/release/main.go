// Command release makes the commit of a release and tries it, before anybody can fetch it. From the
// root:
//
//	GOWORK=off go -C tools run ./release v1.2.3         tries it
//	GOWORK=off go -C tools run ./release -tag v1.2.3    also makes the commit and the tags
//
// In a checkout of HEAD, the go.mod of each module with a tag requires the version of the others and
// has no replace of them. The modules are zipped as a proxy would, below a directory that then is the
// proxy, each before those that require it: so each go.sum has the hash that all others will compute.
// At the end, brock is installed from there into an empty directory.
//
// The tags are made on the commit of the release, which lies beside main. Nothing is pushed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

// untagged are the modules, or the directories of modules, that have no tag: nobody requires them.
var untagged = []string{"bench", "examples", "powercut", "tools", "debug/browser", "integrations/raft/bench", "integrations/otelstorage/bench", "integrations/otelstorage/collector"}

func main() {
	tag := flag.Bool("tag", false, "make the commit and the tags")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if flag.NArg() != 1 || !semver.IsValid(flag.Arg(0)) {
		fmt.Fprintln(os.Stderr, "usage: release [-tag] v1.2.3")
		os.Exit(2)
	}
	if err := makeRelease(ctx, flag.Arg(0), *tag); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one that is being made.
type release struct {
	ctx     context.Context
	version string
	root    string             // of the checkout
	proxy   string             // directory of the zipped modules
	cache   string             // the usual cache of modules
	proxies string             // the usual proxies
	modules map[string]*member // by path
}

// member is a module of the repository.
type member struct {
	dir    string // below the root, with slashes; "" is the core
	file   *modfile.File
	tagged bool
	done   bool // it is in the proxy
}

func makeRelease(ctx context.Context, version string, tag bool) (err error) {
	scratch, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	repository, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	r := &release{ctx: ctx, version: version, root: filepath.Join(scratch, "checkout"), proxy: filepath.Join(scratch, "proxy"), modules: map[string]*member{}}
	if r.cache, err = output(ctx, ".", "go", "env", "GOMODCACHE"); err != nil {
		return err
	}
	if r.proxies, err = output(ctx, ".", "go", "env", "GOPROXY"); err != nil {
		return err
	}
	if err := r.run(repository, "git", "worktree", "add", "--detach", r.root, "HEAD"); err != nil {
		return err
	}
	defer func() {
		clean := exec.Command("git", "-C", repository, "worktree", "remove", "--force", r.root)
		clean.Stderr = os.Stderr
		err = errors.Join(err, clean.Run(), os.RemoveAll(scratch))
	}()
	if err := r.readModules(); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(r.modules)) {
		if err := r.publish(path); err != nil {
			return err
		}
	}
	if err := r.install(filepath.Join(scratch, "bin")); err != nil {
		return err
	}
	if !tag {
		return nil
	}
	if err := r.run(r.root, "git", "commit", "-qam", "release "+version); err != nil {
		return err
	}
	for _, m := range r.modules {
		if m.tagged {
			if err := r.run(r.root, "git", "tag", "-m", "release "+version, path.Join(m.dir, version)); err != nil {
				return err
			}
		}
	}
	return nil
}

// readModules reads the go.mod of each module.
func (r *release) readModules() error {
	names, err := output(r.ctx, r.root, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(names) {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		f, err := modfile.Parse(name, data, nil)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(path.Dir(name), ".")
		m := &member{dir: dir, file: f}
		m.tagged = !slices.ContainsFunc(untagged, func(u string) bool { return dir == u || strings.HasPrefix(dir, u+"/") })
		r.modules[f.Module.Mod.Path] = m
	}
	return nil
}

// publish puts a module into the proxy, after those that it requires.
func (r *release) publish(name string) error {
	m := r.modules[name]
	if m.done || !m.tagged {
		return nil
	}
	m.done = true // a module that requires itself would be no error of Go either
	for _, q := range slices.Clone(m.file.Require) {
		other := r.modules[q.Mod.Path]
		switch {
		case other == nil:
			continue
		case !other.tagged:
			return fmt.Errorf("%s requires %s, which gets no tag", name, q.Mod.Path)
		}
		if err := r.publish(q.Mod.Path); err != nil {
			return err
		}
		if err := m.file.AddRequire(q.Mod.Path, r.version); err != nil {
			return err
		}
	}
	for _, p := range slices.Clone(m.file.Replace) {
		if r.modules[p.Old.Path] == nil {
			return fmt.Errorf("%s replaces %s, which those who require it would not see", name, p.Old.Path)
		}
		if err := m.file.DropReplace(p.Old.Path, p.Old.Version); err != nil {
			return err
		}
	}
	m.file.Cleanup()
	data, err := m.file.Format()
	if err != nil {
		return err
	}
	dir := filepath.Join(r.root, m.dir)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), data, 0o644); err != nil {
		return err
	}
	// The hashes of the modules required get into go.sum, and all compiles without go.work.
	if err := r.run(dir, "go", "mod", "tidy"); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := r.run(dir, "go", "vet", "-mod=readonly", "./..."); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Println(name, r.version)
	return r.zip(name, dir)
}

// zip writes the files of a module that a proxy serves.
func (r *release) zip(name, dir string) (err error) {
	to := filepath.Join(r.proxy, filepath.FromSlash(name), "@v")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	// Go adds the LICENSE of the repository to a module without one, so it counts for the hash.
	license := filepath.Join(dir, "LICENSE")
	if _, err := os.Stat(license); errors.Is(err, fs.ErrNotExist) {
		text, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
		if err == nil {
			err = os.WriteFile(license, text, 0o644)
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Remove(license)) }()
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, r.version, time.Now().UTC().Format(time.RFC3339))
	for name, data := range map[string][]byte{r.version + ".mod": mod, r.version + ".info": []byte(info), "list": []byte(r.version + "\n")} {
		if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(to, r.version+".zip"))
	if err != nil {
		return err
	}
	return errors.Join(zip.CreateFromDir(f, module.Version{Path: name, Version: r.version}, dir), f.Close())
}

// install installs the program brock as its users do, and runs it.
func (r *release) install(bin string) error {
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	install := r.command(bin, "go", "install", "github.com/brockdb/brock/cmd/brock@"+r.version)
	install.Env = append(install.Env, "GOBIN="+bin)
	if err := install.Run(); err != nil {
		return fmt.Errorf("install brock: %w", err)
	}
	return r.run(bin, filepath.Join(bin, "brock"), "version")
}

func (r *release) run(dir, name string, args ...string) error {
	if err := r.command(dir, name, args...).Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// command returns a command that has the proxy in front of the usual ones.
func (r *release) command(dir, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(r.ctx, name, args...)
	c.Dir, c.Stdout, c.Stderr = dir, os.Stdout, os.Stderr
	// A cache of its own, as the usual one would keep the tried modules under the version's name. What
	// the usual one has need not be fetched again. The sum database doesn't know the modules.
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GONOSUMDB=github.com/brockdb/*",
		"GOPROXY="+strings.Join([]string{"file://" + r.proxy, "file://" + filepath.Join(r.cache, "cache", "download"), r.proxies}, ","),
		"GOMODCACHE="+filepath.Join(filepath.Dir(r.root), "cache"))
	return c
}

// output runs a command and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
