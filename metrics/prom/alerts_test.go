package prom

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
)

// alerts is what the test looks at.
type alerts struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

var (
	overTime = regexp.MustCompile(`(rate|increase)\((brock_[a-z0-9_]+)\[`)
	duration = regexp.MustCompile(`^\d+[smhd]$`)
)

// TestAlerts holds each rule against what the collector has, and against the chapter that
// says what to do: a metric that is renamed would leave an alert that never fires.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file alerts
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	runbook, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	known, seen := kinds(), make(map[string]bool)
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if seen[rule.Alert] || rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%q: a second one, or without summary or severity", rule.Alert)
			}
			seen[rule.Alert] = true
			if rule.For != "" && !duration.MatchString(rule.For) {
				t.Errorf("%s: for %q", rule.Alert, rule.For)
			}
			if !strings.Contains(string(runbook), "\n### "+rule.Alert+"\n") {
				t.Errorf("%s: docs/operations.md does not say what to do", rule.Alert)
			}
			names := metricName.FindAllString(rule.Expr, -1)
			if len(names) == 0 || strings.Count(rule.Expr, "(") != strings.Count(rule.Expr, ")") {
				t.Errorf("%s: %s", rule.Alert, rule.Expr)
			}
			for _, name := range names {
				if known[name] == "" {
					t.Errorf("%s: there is no %s", rule.Alert, name)
				}
			}
			for _, call := range overTime.FindAllStringSubmatch(rule.Expr, -1) {
				if known[call[2]] != "counter" {
					t.Errorf("%s: %s of %s, which is no counter", rule.Alert, call[1], call[2])
				}
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("%d alerts", len(seen))
	}
	for _, heading := range regexp.MustCompile(`(?m)^### (Brock\w+)$`).FindAllSubmatch(runbook, -1) {
		if !seen[string(heading[1])] {
			t.Errorf("docs/operations.md has %s, which is no alert", heading[1])
		}
	}
}
