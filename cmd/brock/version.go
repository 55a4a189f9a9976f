package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/brockdb/brock/internal/version/manifest"
)

type versionCommand struct {
	JSON bool `help:"Print JSON."`
}

// build is what the program was built from. Fields are empty where the builder
// did not record them, as "go run" does not record the revision.
type build struct {
	Version  string `json:"version"`            // of the module; "(devel)" outside of a release
	Revision string `json:"revision,omitempty"` // commit
	Time     string `json:"time,omitempty"`     // of the commit
	Modified bool   `json:"modified,omitempty"` // by changes that were not committed
	Format   string `json:"format"`             // of the stores that it makes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// newBuild reads info, which is nil if the program has none.
func newBuild(info *debug.BuildInfo) build {
	b := build{
		Version:  "unknown",
		Format:   fmt.Sprintf("%d.%d", manifest.FormatMajor, manifest.FormatMinor),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info == nil {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b *build) print(a *app) {
	fmt.Fprintf(a.out, "brock     %s\n", b.Version)
	if b.Revision != "" {
		modified := ""
		if b.Modified {
			modified = ", modified"
		}
		fmt.Fprintf(a.out, "revision  %s of %s%s\n", b.Revision, b.Time, modified)
	}
	fmt.Fprintf(a.out, "format    %s\n", b.Format)
	fmt.Fprintf(a.out, "built     with %s for %s\n", b.Go, b.Platform)
}

// Run prints what the program was built from.
func (c *versionCommand) Run(a *app) error {
	info, _ := debug.ReadBuildInfo()
	b := newBuild(info)
	if c.JSON {
		return writeJSON(a.out, b)
	}
	b.print(a)
	return nil
}
