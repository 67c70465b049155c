package tool_test

import (
	"fmt"
	"strings"
	"testing"
)

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
