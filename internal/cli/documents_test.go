package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"hortus.dev/api/admin"
	"hortus.dev/internal/cli/app"
	"hortus.dev/test/document"
)

// TestDocumentedCommands holds every command of hortus in README and the documents
// against the command line's grammar: its command, its flags and their values.
// test/story runs those that a machine can run by itself.
func TestDocumentedCommands(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "packaging/*.md"} {
		list, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list...)
	}
	known, complaints := 0, map[string]string{} // a parser is made for each command line: 17 ms
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range slices.Concat(document.Commands(string(text)), document.Spans(string(text))) {
			calls, err := document.Calls(c.Text)
			if err != nil {
				calls = [][]string{strings.Fields(c.Text)} // hortus key rm <ID>
			}
			for _, call := range calls {
				if filepath.Base(call[0]) != "hortus" {
					continue
				}
				known++
				line := strings.Join(call[1:], "\x00")
				complaint, ok := complaints[line]
				if !ok {
					complaint = complaintAbout(t, call[1:])
					complaints[line] = complaint
				}
				if complaint != "" {
					t.Errorf("%s:%d: %s\n%s", filepath.Base(file), c.Line, strings.Join(call, " "), complaint)
				}
			}
		}
	}
	if known < 150 {
		t.Errorf("only %d commands were found", known)
	}
}

func TestDocumentedCommandsControl(t *testing.T) {
	for _, line := range []string{
		"sandbox run --no-such-flag -- true", "sandbox exec last --rm true", "nosuch", "sandbox nosuch", "task diff ID --rounds x", "key create --role king",
		"sandbox create --ttl 5 minutes",
	} {
		if complaintAbout(t, strings.Fields(line)) == "" {
			t.Errorf("hortus %s passes", line)
		}
	}
}

// complaintAbout parses a command line without running it. What is missing is no
// complaint: a text may name a command or a flag by its name alone.
func complaintAbout(t *testing.T, args []string) (complaint string) {
	t.Helper()
	shown := func(int) { panic(helpShown{}) }
	line := &grammar{}
	a := &app.App{Flags: &line.Flags, Env: app.Env{Stdout: io.Discard, Version: func() admin.Version { return admin.Version{} }}}
	parser, err := kong.New(line, kong.Name("hortus"), kong.Writers(io.Discard, io.Discard), kong.Exit(shown), kong.Bind(a))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != nil && r != (helpShown{}) {
			panic(r)
		}
	}()
	if len(args) > 1 && args[0] == "daemon" && args[1] == "run" {
		return "" // cmd/hortus reads it: the process that other commands start
	}
	// COMMAND stands for any command.
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "COMMAND" || a == "..." })
	_, err = parser.Parse(expandHelp(args))
	switch {
	case err == nil, strings.HasPrefix(err.Error(), "expected "), strings.Contains(err.Error(), `got "EOL"`):
		return ""
	}
	return err.Error()
}

// TestEveryCommandIsDocumented wants each command in the table of docs/cli.md, where
// `sandbox ls`, `show` stands for sandbox ls and sandbox show.
func TestEveryCommandIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n## Commands\n")
	table, _, ok2 := strings.Cut(table, "\n\n`sandbox run` behaves")
	if !ok || !ok2 {
		t.Fatal("docs/cli.md has no table of commands")
	}
	documented := map[string]bool{}
	for line := range strings.Lines(table) {
		cell, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut(cell, "` | ")
		group := ""
		for i, name := range strings.Split(cell, "`, `") {
			words := strings.Fields(name)
			documented[words[0]] = true
			if i == 0 && len(words) > 1 && words[1] == strings.ToLower(words[1]) {
				group = words[0] + " "
				documented[group+words[1]] = true
			}
			documented[group+words[0]] = true
			if i == 0 && len(words) > 2 {
				documented[strings.Join(words[:3], " ")] = true
			}
			if len(words) > 1 && words[0]+" " == group {
				documented[group+words[1]] = true
			}
		}
	}
	parser, err := kong.New(&grammar{}, kong.Name("hortus"))
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		name, _, _ := strings.Cut(strings.TrimPrefix(leaf.FullPath(), "hortus "), " (") // other names
		if !documented[name] && name != "task start" {
			t.Errorf("docs/cli.md has no command %q", name)
		}
	}
}
