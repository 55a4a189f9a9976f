package script

import (
	"fmt"
	"strings"
	"testing"
)

const text = `# a comment
echo a b=1 c=(x, y)
in 1
in 2
----
cmd echo [{a []} {b [1]} {c [x y]}] 2 lines

blank
----
----
one

two
----
----

silent
----
`

func result(c *Case) string {
	switch c.Cmd {
	case "echo":
		return fmt.Sprintf("cmd echo %v %d lines\n", c.Args, strings.Count(c.Input, "\n"))
	case "blank":
		return "one\n\ntwo\n"
	}
	return ""
}

func TestScriptIsReadAndWrittenAlike(t *testing.T) {
	cases := 0
	out, err := run("x", text, func(c *Case, want string) string {
		cases++
		if got := result(c); got != want {
			t.Errorf("%s: want %q, have %q", c.Pos, want, got)
		}
		return want
	})
	if err != nil || out != text || cases != 3 {
		t.Errorf("%d cases, %v:\n%s", cases, err, out)
	}
}

func TestRewrite(t *testing.T) {
	old := strings.ReplaceAll(strings.ReplaceAll(text, "2 lines", "9 lines"), "two", "three")
	out, err := run("x", old, func(c *Case, _ string) string { return result(c) })
	if err != nil || out != text {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestArguments(t *testing.T) {
	c := &Case{}
	if err := c.parse("cmd n=12 flag name=x"); err != nil {
		t.Fatal(err)
	}
	if c.Int(t, "n", 0) != 12 || c.Int(t, "m", 7) != 7 || !c.Has("flag") || c.Has("no") || c.String("name", "") != "x" || c.String("flag", "d") != "d" {
		t.Errorf("%+v", c)
	}
	if err := c.parse("cmd n=(1, 2"); err == nil {
		t.Error("open list accepted")
	}
	if _, err := run("x", "cmd\nno rule\n", func(*Case, string) string { return "" }); err == nil {
		t.Error("case without rule accepted")
	}
}
