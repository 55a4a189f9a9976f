package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/brockdb/brock/internal/manifest"
)

type versionCommand struct {
	JSON bool `help:"As JSON."`
}

// Run prints what the program was built from.
func (c *versionCommand) Run(a *app) error {
	v := struct {
		Version  string `json:"version"`
		Revision string `json:"revision,omitempty"`
		Format   string `json:"format"` // that it writes
		Go       string `json:"go"`
		Platform string `json:"platform"`
	}{
		Version:  "unknown",
		Format:   fmt.Sprintf("%d.%d", manifest.FormatMajor, manifest.FormatMinor),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	if c.JSON {
		return writeJSON(a.out, v)
	}
	fmt.Fprintf(a.out, "brock %s, format %s, %s %s\n", v.Version, v.Format, v.Go, v.Platform)
	if v.Revision != "" {
		fmt.Fprintln(a.out, "revision", v.Revision)
	}
	return nil
}
