package otelstorage

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The README names every option and every metric, and its Go code is that of the example.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme := readText(t, "README.md")
	config := reflect.TypeFor[Config]()
	for i := range config.NumField() {
		name, _, _ := strings.Cut(config.Field(i).Tag.Get("mapstructure"), ",")
		if !strings.Contains(readme, "\n| `"+name+"` | ") {
			t.Errorf("README.md lacks the option %s", name)
		}
	}
	names := []string{memoryName, refusedName}
	for name := range reported {
		names = append(names, name)
	}
	for _, name := range names {
		if !strings.Contains(readme, "`brock."+name+"`") {
			t.Errorf("README.md lacks the metric brock.%s", name)
		}
	}
	_, code, found := strings.Cut(readme, "```go\n")
	code, _, _ = strings.Cut(code, "```")
	if !found || !strings.Contains(withoutIndent(readText(t, "example_test.go")), withoutIndent(code)) {
		t.Errorf("this code is not in example_test.go:\n%s", code)
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func withoutIndent(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		all.WriteString(strings.TrimLeft(line, "\t"))
	}
	return all.String()
}
