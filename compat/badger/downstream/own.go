package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Badger's own tests are a part of its package, and many use what is inside of it. So they are copied
// beside a copy of this module, and what doesn't compile there is left out.

// runOwn runs those tests of Badger that compile here, on both.
func runOwn(ctx context.Context, o *options, p *program, r *row, source string) error {
	genuine, ported := filepath.Join(o.work, p.name+"-genuine"), filepath.Join(o.work, p.name+"-ported")
	if err := errors.Join(os.RemoveAll(genuine), os.CopyFS(genuine, os.DirFS(source))); err != nil {
		return err
	}
	if err := writePorted(o.root, ported, p.limited); err != nil {
		return err
	}
	for name, shim := range p.shims {
		if err := writeFile(filepath.Join(ported, name), []byte(shim)); err != nil {
			return err
		}
	}
	tests, err := filepath.Glob(filepath.Join(source, "*_test.go"))
	if err != nil {
		return err
	}
	for _, path := range tests {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, e := range p.edits {
			content = bytes.ReplaceAll(content, []byte(e.from), []byte(e.to))
		}
		if err := writeFile(filepath.Join(ported, filepath.Base(path)), content); err != nil {
			return err
		}
	}
	if err := editModule(ctx, ported, "-replace="+brockPath+"="+o.root, "-require=github.com/stretchr/testify@v1.11.1"); err != nil {
		return err
	}
	if err := dropUncompiled(ctx, ported); err != nil {
		return err
	}
	names, err := testNames(ported)
	if err != nil {
		return err
	}
	mine := *p
	mine.flags = append(slices.Clone(p.flags), "-run", "^("+strings.Join(names, "|")+")$")
	if r.genuine, err = runTests(ctx, &mine, genuine, o.timeout); err == nil {
		r.ported, err = runTests(ctx, &mine, ported, o.timeout)
	}
	return err
}

// compileError is a position in the output of the compiler.
var compileError = regexp.MustCompile(`(?m)^(?:\./)?(\w+_test\.go):(\d+):\d+: `)

// dropUncompiled drops declarations from the test files in dir until all compiles.
func dropUncompiled(ctx context.Context, dir string) error {
	for range 50 { // a declaration that is dropped takes along those that use it
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-gcflags=-e", "-o", os.DevNull, ".")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		bad := map[string][]int{} // lines by file
		for _, m := range compileError.FindAllSubmatch(out, -1) {
			line, _ := strconv.Atoi(string(m[2]))
			bad[string(m[1])] = append(bad[string(m[1])], line)
		}
		if len(bad) == 0 {
			return fmt.Errorf("%w: %s", err, lastLines(string(out), 5))
		}
		for name, lines := range bad {
			if err := dropDeclarations(filepath.Join(dir, name), lines); err != nil {
				return err
			}
		}
	}
	return errors.New("the tests don't compile")
}

// dropDeclarations drops the declarations and imports of a file that have one of the lines.
func dropDeclarations(path string, lines []int) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, 0)
	if err != nil {
		return err
	}
	var nodes []ast.Node
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			for _, s := range g.Specs {
				nodes = append(nodes, s)
			}
			continue
		}
		nodes = append(nodes, d)
	}
	for _, n := range slices.Backward(nodes) {
		from, to := files.Position(n.Pos()), files.Position(n.End())
		if slices.ContainsFunc(lines, func(line int) bool { return from.Line <= line && line <= to.Line }) {
			source = slices.Delete(source, from.Offset, to.Offset)
		}
	}
	return os.WriteFile(path, source, 0o644)
}

// testName is the beginning of a test.
var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testNames returns the tests in dir.
func testNames(dir string) (names []string, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, m := range testName.FindAllSubmatch(content, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names, err
}
