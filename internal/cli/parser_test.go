package cli

import (
	"bytes"
	"io"
	"testing"

	"hortus.dev/internal/cli/app"
)

// TestParserOfOneCommand wants the same help of each command from a parser that has only this
// command as from one that has all of them.
func TestParserOfOneCommand(t *testing.T) {
	all, err := newParser(&app.App{Env: app.Env{Stdout: io.Discard, Stderr: io.Discard}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	help := func(name string, names ...string) (out string) {
		t.Helper()
		var printed bytes.Buffer
		parser, err := newParser(&app.App{Env: app.Env{Stdout: &printed, Stderr: &printed}}, names)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(parser.Model.Children); names != nil && n != 1 {
			t.Errorf("the parser of %s has %d commands", name, n)
		}
		defer func() {
			if r := recover(); r != (helpShown{}) {
				t.Errorf("%s --help ended with %v, not with help", name, r)
			}
			out = printed.String()
		}()
		_, err = parser.Parse([]string{name, "--help"})
		t.Errorf("%s --help: %v", name, err)
		return ""
	}
	for _, c := range all.Model.Children {
		if one, whole := help(c.Name, c.Name), help(c.Name); one != whole || one == "" {
			t.Errorf("the help of %s:\n%s\nwith all commands:\n%s", c.Name, one, whole)
		}
	}
}
