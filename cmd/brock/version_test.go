package main

import (
	"bytes"
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	info := &debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123abc"},
			{Key: "vcs.time", Value: "2030-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	}
	for _, c := range []struct {
		info *debug.BuildInfo
		want []string
	}{
		{info, []string{"brock     v1.2.3\n", "revision  0123abc of 2030-01-02T03:04:05Z, modified\n", "format    ", "built     with go"}},
		{nil, []string{"brock     unknown\nformat    "}},
	} {
		var out bytes.Buffer
		b := newBuild(c.info)
		b.print(&app{out: &out})
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("printed\n%swant %q in it", out.String(), want)
			}
		}
	}
	var b build
	if err := json.Unmarshal([]byte(must(t, t.TempDir(), "", "version", "--json")), &b); err != nil || b.Format == "" || b.Go == "" {
		t.Errorf("as JSON: %+v, %v", b, err)
	}
}
