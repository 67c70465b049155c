package tool_test

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/test/agenttest"
)

// forget tells the tools that the history was shortened.
func (b *bench) forget() {
	for _, x := range b.all {
		x.(loop.Forgetter).Forget()
	}
}

func numberedLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "this is line %d of the file\n", i+1)
	}
	return b.String()
}

// What the history has is not shown again, unless the model asks once more, the file changed, or the history was shortened.
func TestViewOnce(t *testing.T) {
	b := newBench(t)
	b.put("a.txt", numberedLines(200))
	b.put("short.txt", "one\ntwo\n")
	const before = "did not change: an earlier result shows lines"
	for _, c := range []struct {
		name       string
		path       string
		from, to   int
		do         func()
		pointed    bool
		first, end string
	}{
		{name: "first", path: "a.txt", from: 1, to: 100, first: "1\tthis is line 1 "},
		{name: "again", path: "a.txt", from: 1, to: 100, pointed: true},
		{name: "once more", path: "a.txt", from: 1, to: 100, first: "1\tthis is line 1 "},
		{name: "a part of it", path: "a.txt", from: 20, to: 80, pointed: true},
		{name: "the part once more", path: "a.txt", from: 20, to: 80, first: "20\tthis is line 20 "},
		{name: "more than it", path: "a.txt", from: 50, to: 150, first: "50\tthis is line 50 "},
		{name: "both together", path: "a.txt", from: 2, to: 149, pointed: true},
		{name: "after another edit", path: "a.txt", from: 1, to: 100, do: func() {
			b.call("str_replace", in{"path": "a.txt", "old": "this is line 7 of the file", "new": "line 7"})
		}, first: "1\tthis is line 1 "},
		{name: "after a command", path: "a.txt", from: 1, to: 100, do: func() {
			b.call("shell", in{"command": "echo x >> a.txt"})
		}, first: "1\tthis is line 1 "},
		{name: "elsewhere", path: "a.txt", from: 150, to: 200, first: "150\tthis is line 150 "},
		{name: "where it was before", path: "a.txt", from: 1, to: 100, first: "1\tthis is line 1 "},
		{name: "after a shorter history", path: "a.txt", from: 1, to: 100, do: b.forget, first: "1\tthis is line 1 "},
		{name: "short", path: "short.txt", from: 1, to: 2, first: "1\tone\n"},
		{name: "short again", path: "short.txt", from: 1, to: 2, first: "1\tone\n"},
	} {
		if c.do != nil {
			c.do()
		}
		res := b.call("view", in{"path": c.path, "start_line": c.from, "end_line": c.to})
		if pointed := strings.Contains(res.Text, before); pointed != c.pointed || res.Failed || !strings.HasPrefix(res.Text, c.first) {
			t.Errorf("%s: %.200q", c.name, res.Text)
		}
	}
	// A file that was only pointed at may be replaced: the model has read it.
	if res := b.call("create", in{"path": "a.txt", "content": "x\n"}); res.Failed {
		t.Errorf("%q", res.Text)
	}
	// Tools for several histories show everything.
	sandbox := agenttest.NewSandbox(t)
	b.put("b.txt", numberedLines(100))
	sandbox.Dir = b.dir
	for _, x := range tool.Reading(tool.Config{Sandbox: sandbox}) {
		if x.Spec().Name != "view" {
			continue
		}
		for range 3 {
			res, err := x.Call(t.Context(), []byte(`{"path":"b.txt"}`))
			if err != nil || !strings.HasPrefix(res.Text, "1\tthis is line 1 ") {
				t.Errorf("%v, %.200q", err, res.Text)
			}
		}
	}
}

// Calls of view run side by side.
func TestViewOnceTogether(t *testing.T) {
	b := newBench(t)
	b.put("a.txt", numberedLines(200))
	texts := make(chan string)
	for range 8 {
		go func() {
			res, err := b.all["view"].Call(t.Context(), []byte(`{"path":"a.txt"}`))
			texts <- fmt.Sprint(res.Text, err)
		}()
	}
	whole := 0
	for range 8 {
		if strings.HasPrefix(<-texts, "1\tthis is line 1 ") {
			whole++
		}
	}
	if whole != 4 {
		t.Errorf("%d of 8 results show the file", whole)
	}
}

func TestSameOutput(t *testing.T) {
	b := newBench(t)
	b.put("a.txt", numberedLines(100))
	b.put("b.txt", numberedLines(101))
	const before = "[same output as the earlier command: cat a.txt]\n[exit code "
	for i, c := range []struct {
		command string
		do      func()
		want    string
	}{
		{"cat a.txt", nil, "this is line 1 "},
		{"cat a.txt; exit 3", nil, before + "3]"},
		{"cat a.txt", nil, "this is line 1 "},
		{"cat b.txt", nil, "this is line 1 "},
		{"cat  a.txt", nil, before + "0]"},
		{"cat a.txt", b.forget, "this is line 1 "},
		{"echo short", nil, "short\n"},
		{"echo short", nil, "short\n"},
	} {
		if c.do != nil {
			c.do()
		}
		if res := b.call("shell", in{"command": c.command}); !strings.HasPrefix(res.Text, c.want) {
			t.Errorf("%d: %.200q", i, res.Text)
		}
	}
}

// A map is made of files of the workspace, whether it is a repository or not; what is ignored is not in it.
func TestMap(t *testing.T) {
	for _, repository := range []bool{true, false} {
		t.Run(fmt.Sprint("repository ", repository), func(t *testing.T) {
			b := tree(t, repository)
			b.put("core/core.go", "package core\n\nimport (\n\t\"fmt\"\n)\n\ntype Core struct {\n}\n\nfunc (c *Core) Run() {}\n")
			b.put("cmd/main.go", "package main\n\nimport (\n\t\"example.org/m/core\"\n)\n\nfunc main() {}\n")
			b.put("src/Main.java", "import org.example.Other;\r\n\r\npublic class Main {\r\n}\r\n")
			b.put("src/lib.rs", "pub fn run() {}\n")
			b.put("src/x.js", "export function "+strings.Repeat("x", 500)+"() {}\n")
			res := b.call("map", in{})
			b.want(res, false, "a.py: foo\n", "cmd/main.go: main\n", "core/core.go: Core *Core.Run\n", "src/Main.java: Main\n", "src/lib.rs: run\n", "src/x.js: xxxx")
			if strings.Contains(res.Text, "ignored") || strings.Contains(res.Text, ".git/") || len(res.Text) > 1000 {
				t.Error(res.Text)
			}
			if again := b.call("map", in{}); again.Text != res.Text {
				t.Errorf("another map: %s", again.Text)
			}
			b.want(b.call("map", in{"path": "core"}), false, "core/core.go: Core *Core.Run\n[1 files]")
			b.want(b.call("map", in{"path": "sub"}), false, "No source files")
			b.want(b.call("map", in{"path": "a.py"}), true, "not a directory")
			b.want(b.call("map", in{"path": "nope"}), true, "nope does not exist")
			b.want(b.call("map", in{"path": ".git"}), true, "Git's internal directory")
		})
	}
}

// A map of many files keeps to what a model reads, and tells that there is more.
func TestLargeMap(t *testing.T) {
	b := newBench(t)
	for i := range 900 {
		b.put(fmt.Sprintf("pkg/file%03d.py", i), fmt.Sprintf("class Thing%d:\n    pass\n\ndef function_%d():\n    pass\n", i, i))
	}
	b.put("main.py", "from pkg.file777 import Thing777\n\ndef main():\n    pass\n")
	res := b.call("map", in{})
	b.want(res, false, "main.py: main\n", "pkg/file777.py: Thing777 function_777\n", "of 901 files")
	if n := len(res.Text); n > 12_000 || n < 11_000 {
		t.Errorf("%d bytes", n)
	}
}
