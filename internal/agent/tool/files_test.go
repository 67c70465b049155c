package tool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestView(t *testing.T) {
	b := newBench(t)
	var long strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&long, "%-40s\n", fmt.Sprintf("line %d", i+1))
	}
	b.put("long.txt", long.String())
	b.put("a/b.txt", "one\ntwo\r\nthree")
	b.put("empty", "")
	b.put("bin", "\x7fELF\x00\x01")
	b.put("latin", "caf\xe9\n")
	b.put("crlf", "a\r\nb\r\n")
	b.put("bom", "\uFEFFa\n")
	b.put("wide", strings.Repeat("x", 100_000)+"\nnext\n")
	b.put("esc", "a\x1b[31mb\n")
	b.put("big", strings.Repeat("0123456789012345678\n", 200_000))
	for _, c := range []struct {
		name   string
		in     in
		failed bool
		parts  []string
	}{
		{"whole", in{"path": "a/b.txt"}, false, []string{"1\tone\n2\ttwo\n3\tthree\n[end of file: 3 lines]"}},
		{"absolute", in{"path": "/workspace/a/../a/b.txt"}, false, []string{"1\tone\n"}},
		{"first lines", in{"path": "long.txt"}, false, []string{"[lines 1 to ", "of 1000; continue with start_line "}},
		{"range", in{"path": "long.txt", "start_line": 999, "end_line": 2000}, false, []string{"999\tline 999", "\n1000\tline 1000", "\n[end of file: 1000 lines]"}},
		{"large range", in{"path": "long.txt", "start_line": 1, "end_line": 1000}, false, []string{"of 1000; continue with start_line "}},
		{"past the end", in{"path": "long.txt", "start_line": 1001}, true, []string{"has 1000 lines"}},
		{"backwards", in{"path": "long.txt", "start_line": 5, "end_line": 4}, true, []string{"is greater than end_line"}},
		{"empty", in{"path": "empty"}, false, []string{"empty is empty."}},
		{"missing", in{"path": "nope"}, true, []string{"does not exist"}},
		{"binary", in{"path": "bin"}, true, []string{"an ELF program, 6 bytes"}},
		{"other encoding", in{"path": "latin"}, false, []string{"1\tcaf\uFFFD\n"}},
		{"CR LF", in{"path": "crlf"}, false, []string{"1\ta\n2\tb\n", "CR LF"}},
		{"mark", in{"path": "bom"}, false, []string{"1\ta\n", "byte order mark"}},
		{"wide line", in{"path": "wide"}, false, []string{"more bytes in this line]\n2\tnext\n"}},
		{"escapes", in{"path": "esc"}, false, []string{"1\ta␛[31mb\n"}},
		{"large file", in{"path": "big", "start_line": 150_000, "end_line": 150_001}, false, []string{"150000\t0123456789012345678\n150001\t", "4000000 bytes"}},
		{"large file's end", in{"path": "big", "start_line": 250_000}, true, []string{"4000000 bytes"}},
		{"directory", in{"path": "."}, false, []string{"a/\n", "bin  6 bytes\n", "[10 entries in .]"}},
		{"no path", in{"path": ""}, true, []string{"path is empty"}},
		{"NUL", in{"path": "a\x00b"}, true, []string{"control character"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			b.forget()
			res := b.call("view", c.in)
			b.want(res, c.failed, c.parts...)
			if len(res.Text) > 11_000 {
				t.Errorf("%d bytes", len(res.Text))
			}
		})
	}
}

// TestViewOddFiles: what is no file must neither hang nor be read.
func TestViewOddFiles(t *testing.T) {
	b := newBench(t)
	if err := syscall.Mkfifo(filepath.Join(b.dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"zero": "/dev/zero", "environ": "/proc/self/environ", "loop": "loop", "dead": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.put("dir/new\nline", "x")
	t.Setenv("HORTUS_TEST_SECRET", "leaked")
	for _, name := range []string{"fifo", "zero", "loop", "dead"} {
		b.want(b.call("view", in{"path": name}), true)
		b.want(b.call("str_replace", in{"path": name, "old": "a", "new": "b"}), true)
	}
	for _, path := range []string{"fifo", "zero", "loop"} {
		b.want(b.call("create", in{"path": path, "content": "x"}), true)
	}
	// Of /proc a guest says that it is empty, as the kernel does.
	if res := b.call("view", in{"path": "environ"}); strings.Contains(res.Text, "leaked") {
		t.Error(res.Text)
	}
	b.want(b.call("view", in{"path": "dir"}), false, "new␊line  1 bytes\n[1 entries in dir]")
}

func TestEdits(t *testing.T) {
	const main = "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n"
	for _, c := range []struct {
		name   string
		before string
		tool   string
		in     in
		after  string // of f.txt
		failed bool
		parts  []string
	}{
		{"replace", main, "str_replace", in{"old": "def add(a, b):\n    return a - b", "new": "def add(a, b):\n    return a + b"}, strings.Replace(main, "-", "+", 1), false,
			[]string{"edited f.txt (+1 -1)\n", "2\t    return a + b\n"}},
		{"several", main, "str_replace", in{"old": "return a - b", "new": "x"}, main, true, []string{"occurs 2 times in f.txt, at lines 2, 6."}},
		{"all", main, "str_replace", in{"old": "return a - b", "new": "x", "all": true}, strings.ReplaceAll(main, "return a - b", "x"), false, []string{"2 matches were replaced."}},
		{"delete", main, "str_replace", in{"old": "\n\ndef sub(a, b):\n    return a - b\n", "new": ""}, "def add(a, b):\n    return a - b\n", false, []string{"(+0 -4)"}},
		{"not there", main, "str_replace", in{"old": "def mul(a, b):", "new": "x"}, main, true, []string{"was not found in f.txt", "most similar", "1\tdef add(a, b):"}},
		{"white space", main, "str_replace", in{"old": "def sub(a,b):\n\treturn a - b", "new": "x"}, main, true, []string{"different white space", "5\tdef sub(a, b):\n6\t    return a - b"}},
		{"nothing like it", main, "str_replace", in{"old": "@@@@####", "new": "x"}, main, true, []string{"The file has no similar lines"}},
		{"the same", main, "str_replace", in{"old": "a", "new": "a"}, main, true, []string{"identical"}},
		{"empty old", main, "str_replace", in{"old": "", "new": "a"}, main, true, []string{"insert"}},
		{"CR LF", "a\r\nb\r\nc\r\n", "str_replace", in{"old": "a\nb", "new": "x\ny"}, "x\r\ny\r\nc\r\n", false, nil},
		{"CR LF in part", "a\r\nb\r\nc\n", "str_replace", in{"old": "a\nb", "new": "x\ny"}, "x\r\ny\r\nc\n", false, nil},
		{"mark", "\uFEFFa\n", "str_replace", in{"old": "a", "new": "b"}, "\uFEFFb\n", false, nil},
		{"no last line break", "a\nb", "str_replace", in{"old": "b", "new": "c"}, "a\nc", false, nil},
		{"binary", "a\x00b", "str_replace", in{"old": "a", "new": "b"}, "a\x00b", true, []string{"binary data"}},
		{"other encoding", "caf\xe9", "str_replace", in{"old": "caf", "new": "b"}, "caf\xe9", true, []string{"an encoding other than UTF-8"}},
		{"too large", strings.Repeat("a", 2<<20+1), "str_replace", in{"old": "a", "new": "b"}, strings.Repeat("a", 2<<20+1), true, []string{"2097152"}},
		{"grows too large", strings.Repeat("a", 1<<20), "str_replace", in{"old": "a", "new": "bbb", "all": true}, strings.Repeat("a", 1<<20), true, []string{"would have"}},
		{"top", "a\n", "insert", in{"line": 0, "text": "x"}, "x\na\n", false, []string{"(+1 -0)"}},
		{"middle", "a\nb\n", "insert", in{"line": 1, "text": "x\ny\n"}, "a\nx\ny\nb\n", false, nil},
		{"end", "a\nb\n", "insert", in{"line": 2, "text": "x"}, "a\nb\nx\n", false, nil},
		{"end without a break", "a\nb", "insert", in{"line": 2, "text": "x\n"}, "a\nb\nx", false, nil},
		{"into nothing", "", "insert", in{"line": 0, "text": "x"}, "x\n", false, nil},
		{"CR LF insert", "a\r\nb\r\n", "insert", in{"line": 1, "text": "x\ny"}, "a\r\nx\r\ny\r\nb\r\n", false, nil},
		{"too far", "a\n", "insert", in{"line": 2, "text": "x"}, "a\n", true, []string{"has 1 lines"}},
		{"create over", "a\n", "create", in{"content": "b\n"}, "a\n", true, []string{"already exists and you have not viewed it"}},
		{"create over nothing", "", "create", in{"content": "b\n"}, "b\n", false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.put("f.txt", c.before)
			c.in["path"] = "f.txt"
			b.want(b.call(c.tool, c.in), c.failed, c.parts...)
			if got := b.get("f.txt"); got != c.after {
				t.Errorf("after: %.200q, want %.200q", got, c.after)
			}
		})
	}
}

func TestCreate(t *testing.T) {
	b := newBench(t)
	b.want(b.call("create", in{"path": "a/b/c.txt", "content": "x\ny\n"}), false, "created a/b/c.txt (+2 -0)")
	b.want(b.call("create", in{"path": "run.sh", "content": "#!/bin/sh\necho hi\n"}), false)
	b.want(b.call("shell", in{"command": "./run.sh"}), false, "hi")
	// The mode stays, and what was made here may be replaced.
	if err := os.Chmod(filepath.Join(b.dir, "run.sh"), 0o711); err != nil {
		t.Fatal(err)
	}
	b.want(b.call("create", in{"path": "run.sh", "content": "#!/bin/sh\necho ho\n"}), false, "edited run.sh (+1 -1)")
	if info, err := os.Stat(filepath.Join(b.dir, "run.sh")); err != nil || info.Mode() != 0o711 {
		t.Error(info.Mode(), err)
	}
	b.put("crlf", "a\r\nb\r\n")
	b.call("view", in{"path": "crlf"})
	b.want(b.call("create", in{"path": "./crlf", "content": "a\nc\n"}), false)
	if got := b.get("crlf"); got != "a\r\nc\r\n" {
		t.Errorf("%q", got)
	}
	b.want(b.call("create", in{"path": "crlf", "content": "a\nc\n"}), true, "already has this content")
	b.want(b.call("create", in{"path": "a", "content": "x"}), true)
}

func TestSyntax(t *testing.T) {
	for _, c := range []struct {
		file, needs, good, bad, where string
	}{
		{"a.py", "python3", "def f():\n    return 1\n", "def f():\n    return 1 +\n", "line 2, column"},
		{"return.py", "python3", "x = 1\n", "x = 1\nreturn x\n", "line 2"},
		{"a.go", "", "package a\n\nfunc f() {}\n", "package a\n\nfunc f() {\n", "line 3"},
		{"a.json", "", "{\"a\": [1]}\n", "{\"a\": 1,\n \"b\" 2}\n", "line 2, column 6"},
		{"more.json", "", "1\n", "1\n2\n", "line 2"},
		{"a.yaml", "", "a: 1\n---\nb: [1]\n", "a: 1\n---\nb: [1\n", "line"},
		{"a.js", "node", "const a = 1;\n", "const a = ;\n", "line 1"},
		{"esm.js", "node", "import a from 'a';\nawait a();\n", "import a from 'a';\nlet b = ;\n", "line 2"},
		{"a.mjs", "node", "export const a = 1;\n", "export const a = 1;\nreturn 1;\n", "line 2"},
		{"a.cjs", "node", "module.exports = 1;\n", "module.exports = 1;\nexport const a = 1;\n", "line 2"},
	} {
		t.Run(c.file, func(t *testing.T) {
			b := newBench(t)
			if c.needs != "" {
				b.program(c.needs)
			}
			res := b.call("create", in{"path": c.file, "content": c.bad})
			b.want(res, true, "Nothing was written", c.where, "force")
			if _, err := os.Stat(filepath.Join(b.dir, c.file)); err == nil {
				t.Error("it was written")
			}
			if res := b.call("create", in{"path": c.file, "content": c.good}); strings.Contains(res.Text, "not checked") {
				t.Error(res.Text)
			} else {
				b.want(res, false, "created")
			}
			// A change that breaks it is refused, one that is forced is said.
			b.want(b.call("create", in{"path": c.file, "content": c.bad}), true, "Nothing was written")
			b.want(b.call("create", in{"path": c.file, "content": c.bad, "force": true}), false, "because force is true. It has a syntax error")
			// What is broken may be worked on.
			b.want(b.call("insert", in{"path": c.file, "line": 0, "text": "\n"}), false, "that it had before remains")
		})
	}
}

func TestSyntaxNotChecked(t *testing.T) {
	b := newBench(t)
	b.want(b.call("create", in{"path": "tsconfig.json", "content": "{ // why\n}"}), false)
	b.want(b.call("create", in{"path": ".vscode/settings.json", "content": "{ // why\n}"}), false)
	b.want(b.call("create", in{"path": "a.txt", "content": "def ("}), false)
	b.want(b.call("create", in{"path": "chart.yaml", "content": "a: {{ .b }}\n"}), false, "template")
	b.want(b.call("create", in{"path": "a.tsx", "content": "<a"}), false, "not checked")
	b.want(b.call("create", in{"path": "deep.go", "content": "package a\nvar a = " + strings.Repeat("(", 100_000)}), false, "nested too deeply")
	b.want(b.call("create", in{"path": "deep.json", "content": strings.Repeat("[", 500_000)}), true, "Nothing was written")
	// A sandbox without the programs.
	empty := t.TempDir()
	for _, name := range []string{"sh", "bash", "cat"} {
		if err := os.Symlink("/bin/"+name, filepath.Join(empty, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.sandbox.Path = empty
	b.want(b.call("create", in{"path": "b.py", "content": "def ("}), false, "python3 is not installed")
	b.want(b.call("create", in{"path": "b.js", "content": "def ("}), false, "node is not installed")
	b.want(b.call("outline", in{"path": "b.py"}), false, "could not be parsed")
}

// TestSyntaxRunsNothing: neither the file nor modules beside it run when it is
// checked.
func TestSyntaxRunsNothing(t *testing.T) {
	b := newBench(t)
	b.program("python3")
	for _, m := range []string{"ast", "json", "warnings", "sitecustomize"} {
		b.put(m+".py", "open('ran', 'w')\n")
	}
	b.want(b.call("create", in{"path": "x.py", "content": "open('ran', 'w')\n"}), false, "created")
	b.want(b.call("create", in{"path": "x.js", "content": "require('fs').writeFileSync('ran', '')\n"}), false, "created")
	b.want(b.call("outline", in{"path": "x.py"}), false)
	if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
		t.Error("something ran")
	}
	// The control: a check that looks in the workspace would have run it.
	b.want(b.call("shell", in{"command": "python3 -c 'import ast'"}), false)
	if _, err := os.Stat(filepath.Join(b.dir, "ran")); err != nil {
		t.Error("the control did not run")
	}
	if got, _ := filepath.Glob(filepath.Join(b.dir, "__pycache__", "*")); len(got) > 0 {
		t.Error(got)
	}
}

// An image of the workspace is shown, so many times; one that only begins like an image is binary.
func TestViewImages(t *testing.T) {
	b := newBench(t)
	gif := "GIF89a\x05\x00\x03\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff"
	b.put("a.gif", gif)
	b.put("b.gif", gif[:8]+"\x00\x00")
	for i := range 22 {
		res := b.call("view", in{"path": "a.gif"})
		if many := i >= 20; many != res.Failed || many != (len(res.Images) == 0) {
			t.Fatalf("image %d: %+v", i+1, res)
		}
		b.want(res, res.Failed, "a.gif is a GIF image of 5 x 3 pixels, 19 bytes.")
	}
	b.want(b.call("view", in{"path": "b.gif"}), true, "is not a text file: a GIF image")
}
