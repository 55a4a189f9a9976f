package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	portedPath = "github.com/brockdb/brock/compat/badger"
	brockPath  = "github.com/brockdb/brock"
)

// writePorted copies this module, without its tests, under Badger's import path. If it is limited,
// Options.LimitTxnSize is on by default: the one thing that a program has to ask for.
func writePorted(root, target string, limited bool) error {
	source := filepath.Join(root, "compat", "badger")
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == "downstream" || name == filepath.Join("internal", "differential") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(target, name), bytes.ReplaceAll(content, []byte(`"`+portedPath), []byte(`"`+badgerPath)))
	})
	if err == nil && limited {
		err = limitTransactions(filepath.Join(target, "options.go"))
	}
	if err != nil {
		return err
	}
	return writePortedModule(source, target)
}

// limitTransactions sets LimitTxnSize in DefaultOptions.
func limitTransactions(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	const field = "NumVersionsToKeep: 1,"
	if bytes.Count(content, []byte(field)) != 1 {
		return fmt.Errorf("%s: no single %q", path, field)
	}
	return writeFile(path, bytes.Replace(content, []byte(field), []byte(field+" LimitTxnSize: true,"), 1))
}

// writePortedModule writes the go.mod of the copy: that of this module, under the other path, and
// without genuine Badger, which only tests need.
func writePortedModule(source, target string) error {
	content, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return err
	}
	var out []string
	for line := range strings.Lines(string(content)) {
		switch {
		case strings.HasPrefix(line, "module "):
			line = "module " + badgerPath + "\n"
		case strings.HasPrefix(line, "replace "), strings.Contains(line, badgerPath+" "):
			continue
		}
		out = append(out, line)
	}
	return writeFile(filepath.Join(target, "go.mod"), []byte(strings.Join(out, "")))
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// findSource returns a directory with the module, and its version.
func findSource(ctx context.Context, o *options, p *program) (dir, version string, err error) {
	if given := o.sources[p.module]; given != "" {
		return fromSource(ctx, o, p, given)
	}
	if p.version == "" {
		return "", "", fmt.Errorf("not on the module proxy: give it by -source %s=DIR", p.module)
	}
	out, err := command(ctx, o.work, "go", "mod", "download", "-json", p.module+"@"+p.version)
	var found struct{ Dir, Version, Error string }
	if jsonErr := json.Unmarshal(out, &found); jsonErr != nil {
		return "", "", errors.Join(err, jsonErr)
	}
	if found.Error != "" {
		return "", "", errors.New(found.Error)
	}
	return found.Dir, found.Version, err
}

// fromSource takes a program from a directory, or from the newest commit of a git repository.
func fromSource(ctx context.Context, o *options, p *program, given string) (dir, version string, err error) {
	if _, err := os.Stat(filepath.Join(given, p.dir, "go.mod")); err == nil {
		return filepath.Join(given, p.dir), "directory", nil
	}
	checkout := filepath.Join(o.work, p.name+"-source")
	if err := os.RemoveAll(checkout); err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(checkout, 0o755); err != nil {
		return "", "", err
	}
	archive := filepath.Join(o.work, p.name+".tar")
	commit, err := command(ctx, o.work, "git", "-C", given, "rev-parse", "--short", "HEAD")
	if err != nil {
		return "", "", err
	}
	tree := "HEAD"
	if p.dir != "" {
		tree += ":" + p.dir
	}
	args := append([]string{"-C", given, "archive", "-o", archive, tree, "--"}, p.paths...)
	if _, err := command(ctx, o.work, "git", args...); err != nil {
		return "", "", err
	}
	_, err = command(ctx, checkout, "tar", "-xf", archive)
	return checkout, strings.TrimSpace(string(commit)), err
}

// prepareProgram copies a program to dir and rewrites its imports.
func prepareProgram(ctx context.Context, p *program, source, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Ext(name) == ".go" {
			for from, to := range p.rewrite {
				content = bytes.ReplaceAll(content, []byte(`"`+from), []byte(`"`+to))
			}
			for _, e := range p.edits {
				if filepath.ToSlash(name) == e.file {
					content = bytes.ReplaceAll(content, []byte(e.from), []byte(e.to))
				}
			}
		}
		return writeFile(filepath.Join(dir, name), content)
	})
	if err != nil {
		return err
	}
	// The version that this module is compared with. Older ones differ from it, too.
	return editModule(ctx, filepath.Join(dir, p.tests), "-require="+badgerPath+"@v4.9.6")
}

// usePorted has the program in dir use the copy of this module.
func usePorted(ctx context.Context, dir, ported, root string) error {
	return editModule(ctx, dir, "-replace="+badgerPath+"="+ported, "-replace="+brockPath+"="+root)
}

func editModule(ctx context.Context, dir string, args ...string) error {
	_, err := command(ctx, dir, "go", append([]string{"mod", "edit"}, args...)...)
	return err
}

// command runs a command in dir, outside of this repository's workspace.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	return commandWith(ctx, nil, dir, name, args...)
}

// commandWith is command with more environment.
func commandWith(ctx context.Context, env []string, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	cmd.Env = append(cmd.Env, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLines(stderr.String(), 5))
	}
	return out, err
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
