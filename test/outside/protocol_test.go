package outside

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

// TestProcesses runs commands as Codex does.
func TestProcesses(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	ways(t, testProcesses, "-e", "SOME_TOKEN=t", "-e", "KEPT=k")
}

func testProcesses(t *testing.T, sb, url string) {
	inside(t, sb, "echo only here > content")
	p := connect(t, url)

	info := p.ok("environment/info", object{})
	shell, _ := info["shell"].(object)
	if shell["name"] != "bash" && shell["name"] != "sh" || info["cwd"] != "file:///workspace" || info["userHomeDir"] != "file:///home/user" || info["platformOs"] != "linux" {
		t.Errorf("environment: %v", info)
	}

	p.start("a", sh("pwd; cat content; echo wrong >&2; exit 3"), nil)
	if out, code := p.ended("a"); out["stdout"] != "/workspace\nonly here\n" || out["stderr"] != "wrong\n" || code != 3 {
		t.Errorf("%q, exit %d", out, code)
	}
	p.refused(-32600, "already exists", "process/start", command("a", sh("true"), nil))
	p.refused(-32602, "argv", "process/start", command("b", []string{}, nil))
	p.refused(-32004, "command not found", "process/start", command("c", []string{"no-such-program"}, nil))
	p.start("c", sh("true"), nil) // a name of what did not start is free

	// A read tells the same as the notifications, and by a number what follows it.
	read := p.ok("process/read", object{"processId": "a", "afterSeq": nil, "maxBytes": nil, "waitMs": nil})
	chunks, _ := read["chunks"].([]any)
	if len(chunks) == 0 || read["exited"] != true || read["closed"] != true || read["exitCode"] != 3.0 || read["failure"] != nil {
		t.Errorf("read: %v", read)
	}
	next := read["nextSeq"].(float64)
	read = p.ok("process/read", object{"processId": "a", "afterSeq": next - 1})
	if chunks, _ := read["chunks"].([]any); len(chunks) != 0 || read["nextSeq"] != next {
		t.Errorf("read after the end: %v", read)
	}
	read = p.ok("process/read", object{"processId": "a", "afterSeq": 0, "maxBytes": 1})
	if chunks, _ := read["chunks"].([]any); len(chunks) != 1 {
		t.Errorf("read with a bound: %v", read)
	}

	// Input.
	p.start("in", sh("read x; echo got $x"), object{"pipeStdin": true})
	if got := p.ok("process/write", object{"processId": "in", "chunk": []byte("word\n"), "writeId": "1"}); got["status"] != "accepted" {
		t.Errorf("write: %v", got)
	}
	if out, code := p.ended("in"); out["stdout"] != "got word\n" || code != 0 {
		t.Errorf("%q, exit %d", out, code)
	}
	for id, want := range map[string]string{"in": "stdinClosed", "a": "stdinClosed", "nobody": "unknownProcess"} {
		if got := p.ok("process/write", object{"processId": id, "chunk": []byte("x"), "writeId": "2"}); got["status"] != want {
			t.Errorf("write to %s: %v", id, got)
		}
	}

	// A terminal: its output is one stream, and keys are signals.
	p.start("tty", sh("test -t 0 && test -t 1 && stty size; trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 1; done"), object{"tty": true})
	p.said("tty", "24 80")
	p.said("tty", "ready")
	p.ok("process/write", object{"processId": "tty", "chunk": []byte{3}, "writeId": "3"})
	if out, code := p.ended("tty"); !strings.Contains(out["pty"], "interrupted") || code != 5 {
		t.Errorf("%q, exit %d", out, code)
	}

	p.start("signal", sh("trap 'echo interrupted; exit 6' INT; echo ready; while :; do sleep 1; done"), nil)
	p.said("signal", "ready")
	p.ok("process/signal", object{"processId": "signal", "signal": "interrupt"})
	if out, code := p.ended("signal"); !strings.Contains(out["stdout"], "interrupted") || code != 6 {
		t.Errorf("%q, exit %d", out, code)
	}
	p.refused(-32602, "unknown signal", "process/signal", object{"processId": "signal", "signal": "kill"})

	p.start("long", sh("echo ready; exec sleep 1000"), nil)
	p.said("long", "ready")
	if got := p.ok("process/terminate", object{"processId": "long"}); got["running"] != true {
		t.Errorf("terminate: %v", got)
	}
	if _, code := p.ended("long"); code != 137 {
		t.Errorf("a command that was killed ended with %d", code)
	}
	for _, id := range []string{"long", "nobody"} {
		if got := p.ok("process/terminate", object{"processId": id}); got["running"] != false {
			t.Errorf("terminate %s again: %v", id, got)
		}
	}
}

// TestVariables: a command gets the sandbox's variables that its policy leaves, and its own.
func TestVariables(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	sb := sandbox(t, "container", "-e", "SOME_TOKEN=t", "-e", "KEPT=k")
	p := connect(t, serve(t, sb).url)
	policy := func(inherit string, defaults bool, exclude, only []string) object {
		return object{"inherit": inherit, "ignoreDefaultExcludes": !defaults, "exclude": exclude, "set": object{"SET": "s"}, "includeOnly": only}
	}
	for i, c := range []struct {
		policy any
		want   string
	}{
		{policy("all", false, nil, nil), "t k s own home"},
		{policy("all", true, nil, nil), "- k s own home"},
		{policy("all", false, []string{"ke?t"}, nil), "t - s own home"},
		{policy("all", false, nil, []string{"PATH", "*TOKEN"}), "t - - own -"},
		{policy("core", false, nil, nil), "- - s own home"},
		{policy("none", false, nil, nil), "- - s own -"},
		{nil, "- - - own -"},
	} {
		id := fmt.Sprint("v", i)
		p.start(id, []string{"/bin/sh", "-c", `echo "${SOME_TOKEN:--} ${KEPT:--} ${SET:--} ${OWN:--} ${HOME:+home}"`},
			object{"envPolicy": c.policy, "env": object{"OWN": "own"}})
		out, code := p.ended(id)
		got := strings.TrimSuffix(out["stdout"], "\n")
		if strings.HasSuffix(got, " ") {
			got += "-"
		}
		if got != c.want || code != 0 {
			t.Errorf("%v: %q, exit %d, %q; want %q", c.policy, got, code, out["stderr"], c.want)
		}
	}
}

// TestFiles changes files as Codex does.
func TestFiles(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	ways(t, testFiles)
}

func testFiles(t *testing.T, sb, url string) {
	p := connect(t, url)
	at := func(name string) object { return object{"path": "file:///workspace/" + name, "sandbox": nil} }
	with := func(in object, more object) object {
		for k, v := range more {
			in[k] = v
		}
		return in
	}
	p.refused(-32004, "does not exist", "fs/getMetadata", at("a/b.txt"))
	p.refused(-32004, "does not exist", "fs/readFile", at("a/b.txt"))
	p.refused(-32004, "", "fs/createDirectory", with(at("a/b"), object{"recursive": false}))
	p.ok("fs/createDirectory", with(at("a"), object{"recursive": false}))
	p.ok("fs/createDirectory", with(at("a/deep/er"), object{"recursive": true}))
	content := bytes.Repeat([]byte("content\x00\xff"), 100_000)
	p.ok("fs/writeFile", with(at("a/b%20c.txt"), object{"dataBase64": content}))
	if got := inside(t, sb, "wc -c < 'a/b c.txt'"); strings.TrimSpace(got) != fmt.Sprint(len(content)) {
		t.Errorf("in the sandbox the file has %s bytes", got)
	}
	if got := p.ok("fs/readFile", at("a/b%20c.txt"))["dataBase64"]; got != base64.StdEncoding.EncodeToString(content) {
		t.Error("the file that was read is another one")
	}
	inside(t, sb, "ln -s a link; ln -s nowhere dangling; mkdir .hidden; echo x > .hidden/x; echo y > a/deep/y; mkfifo a/pipe")
	for name, want := range map[string]object{
		"a":           {"isDirectory": true, "isFile": false, "isSymlink": false},
		"a/b%20c.txt": {"isDirectory": false, "isFile": true, "isSymlink": false},
		"link":        {"isDirectory": true, "isFile": false, "isSymlink": true},
		"dangling":    {"isDirectory": false, "isFile": false, "isSymlink": true},
	} {
		got := p.ok("fs/getMetadata", at(name))
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %s is %v", name, k, got[k])
			}
		}
		if ms, _ := got["modifiedAtMs"].(float64); ms < 1.7e12 {
			t.Errorf("%s was modified at %v", name, got["modifiedAtMs"])
		}
	}
	if got := p.ok("fs/canonicalize", at("link/../link/b%20c.txt"))["path"]; got != "file:///workspace/a/b%20c.txt" {
		t.Errorf("canonicalized: %v", got)
	}
	p.refused(-32004, "", "fs/canonicalize", at("nothing"))

	list := p.ok("fs/readDirectory", at("."))["entries"].([]any)
	names := map[string]any{}
	for _, e := range list {
		names[e.(object)["fileName"].(string)] = e.(object)["isDirectory"]
	}
	if want := map[string]any{"a": true, "link": true, "dangling": false, ".hidden": true}; !reflect.DeepEqual(names, want) {
		t.Errorf("the directory has %v", names)
	}

	walk := func(depth, dirs, entries int, follow, prune bool) (paths []string, truncated bool) {
		t.Helper()
		got := p.ok("fs/walk", with(at("."), object{"options": object{
			"maxDepth": depth, "maxDirectories": dirs, "maxEntries": entries, "followDirectorySymlinks": follow, "pruneHiddenDirectories": prune}}))
		for _, e := range got["entries"].([]any) {
			paths = append(paths, strings.TrimPrefix(e.(object)["path"].(string), "file:///workspace/")+" "+e.(object)["kind"].(string)[:1])
		}
		return paths, got["truncated"].(bool)
	}
	if got, cut := walk(9, 100, 100, false, true); cut || strings.Join(got, ",") != "a d,a/b%20c.txt f,a/deep d,a/deep/er d,a/deep/y f" {
		t.Errorf("walk: %q, %v", got, cut)
	}
	if got, cut := walk(0, 100, 100, false, false); cut || strings.Join(got, ",") != ".hidden d,a d" {
		t.Errorf("flat walk: %q, %v", got, cut)
	}
	if got, cut := walk(9, 100, 2, false, true); !cut || len(got) != 2 {
		t.Errorf("walk with a bound: %q, %v", got, cut)
	}
	if got, cut := walk(9, 1, 100, false, true); !cut || strings.Join(got, ",") != "a d" {
		t.Errorf("walk of one directory: %q, %v", got, cut)
	}
	// A circle of links ends.
	inside(t, sb, "ln -s .. a/up")
	if got, cut := walk(1000, 2000, 20000, true, true); cut || len(got) > 20 {
		t.Errorf("walk in circles: %q, %v", got, cut)
	}

	copied := func(from, to string, recursive bool) object {
		return object{"sourcePath": "file:///workspace/" + from, "destinationPath": "file:///workspace/" + to, "recursive": recursive, "sandbox": nil}
	}
	p.ok("fs/copy", copied("a/deep", "b", true))
	p.refused(-32602, "recursive", "fs/copy", copied("a/deep", "b2", false))
	p.refused(-32602, "into itself", "fs/copy", copied("a", "a/deep/a", true))
	p.ok("fs/copy", copied("a/deep/y", "y2", false))
	if got := inside(t, sb, "cat b/y y2; ls b"); got != "y\ny\ner\ny" {
		t.Errorf("copied: %q", got)
	}

	p.refused(-32600, "", "fs/remove", with(at("b"), object{"recursive": false, "force": false}))
	p.refused(-32004, "does not exist", "fs/remove", with(at("nothing"), object{"recursive": false, "force": false}))
	p.ok("fs/remove", with(at("nothing"), object{"force": true}))
	p.ok("fs/remove", with(at("b"), object{"recursive": true, "force": false}))
	p.ok("fs/remove", with(at("link"), object{"recursive": false, "force": false}))
	if got := inside(t, sb, "ls -d a b link 2>/dev/null || true"); got != "a" {
		t.Errorf("after the removal there are %q", got)
	}

	// A file in blocks.
	p.ok("fs/open", with(at("a/b%20c.txt"), object{"handleId": "h"}))
	p.refused(-32600, "already exists", "fs/open", with(at("a/b%20c.txt"), object{"handleId": "h"}))
	block := func(offset, n int) ([]byte, bool) {
		t.Helper()
		got := p.ok("fs/readBlock", object{"handleId": "h", "offset": offset, "len": n})
		b, err := base64.StdEncoding.DecodeString(got["chunk"].(string))
		if err != nil {
			t.Fatal(err)
		}
		return b, got["eof"].(bool)
	}
	for _, c := range []struct{ offset, n int }{{0, 1000}, {1000, 5000}, {500_000, 10}, {0, 7}, {len(content) - 5, 100}, {len(content), 1}, {3, 4}} {
		got, eof := block(c.offset, c.n)
		end := min(c.offset+c.n, len(content))
		if !bytes.Equal(got, content[c.offset:end]) || eof != (c.offset+c.n > len(content)) {
			t.Errorf("block %v: %d bytes, eof %v", c, len(got), eof)
		}
	}
	p.ok("fs/close", object{"handleId": "h"})
	p.refused(-32600, "unknown file handle", "fs/readBlock", object{"handleId": "h", "offset": 0, "len": 1})
	p.refused(-32004, "does not exist", "fs/open", with(at("nothing"), object{"handleId": "h"}))
	p.ok("fs/open", with(at("a/b%20c.txt"), object{"handleId": "h"}))
}
