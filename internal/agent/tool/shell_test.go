package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/test/agenttest"
	"hortus.dev/test/tier"
)

// bench is a set of tools over a folder.
type bench struct {
	t       *testing.T
	dir     string
	sandbox *agenttest.Sandbox
	set     *tool.Set
	all     map[string]loop.Tool
	keep    *tool.Files
}

func newBench(t *testing.T) *bench {
	t.Helper()
	keep, err := tool.NewFiles(t.TempDir(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	sandbox := agenttest.NewSandbox(t)
	b := &bench{t: t, dir: sandbox.Dir, sandbox: sandbox, keep: keep, all: map[string]loop.Tool{}}
	b.set = tool.New(tool.Config{Sandbox: sandbox, Keep: keep})
	for _, x := range b.set.All() {
		b.all[x.Spec().Name] = x
	}
	t.Cleanup(func() {
		b.set.Close(context.Background())
		keep.Close()
	})
	return b
}

// in are the arguments of a call.
type in map[string]any

func (b *bench) call(name string, a in) loop.Result {
	b.t.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := b.all[name].Call(b.t.Context(), raw)
	if err != nil {
		b.t.Fatalf("%s: %v", name, err)
	}
	if res.Text == "" || res.Short == "" || strings.ContainsAny(res.Short, "\n\x1b") {
		b.t.Errorf("%s: text %q, short %q", name, res.Text, res.Short)
	}
	return res
}

func (b *bench) put(name, content string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) get(name string) string {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(content)
}

// want checks a result: whether it failed, and what its text holds.
func (b *bench) want(res loop.Result, failed bool, parts ...string) {
	b.t.Helper()
	if res.Failed != failed {
		b.t.Errorf("failed is %v:\n%s", res.Failed, res.Text)
	}
	for _, p := range parts {
		if !strings.Contains(res.Text, p) {
			b.t.Errorf("%q is not in\n%s", p, res.Text)
		}
	}
}

func (b *bench) program(name string) {
	b.t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		b.t.Skipf("no %s on this machine", name)
	}
}

func TestShell(t *testing.T) {
	b := newBench(t)
	b.put("sub/x", "y\n")
	for _, c := range []struct {
		name   string
		in     in
		failed bool
		text   string
	}{
		{"output", in{"command": "echo a; echo b >&2; echo c"}, false, "a\nb\nc\n[exit code 0]"},
		{"code", in{"command": "echo no; exit 3"}, true, "no\n[exit code 3]"},
		{"silence", in{"command": "true"}, false, "(no output)\n[exit code 0]"},
		{"no last line break", in{"command": "printf x"}, false, "x\n[exit code 0]"},
		{"cwd", in{"command": "cat x", "cwd": "sub"}, false, "y\n[exit code 0]"},
		{"absolute cwd", in{"command": "cat x", "cwd": "/workspace/sub/../sub"}, false, "y\n[exit code 0]"},
		{"env", in{"command": "echo $A $PAGER $CI", "env": in{"A": "1"}}, false, "1 cat 1\n[exit code 0]"},
		{"env wins", in{"command": "echo $PAGER", "env": in{"PAGER": "less"}}, false, "less\n[exit code 0]"},
		{"stdin is empty", in{"command": "cat; echo end"}, false, "end\n[exit code 0]"},
		{"bash", in{"command": "[[ a == a ]] && echo ${BASH_VERSION:+bash}"}, false, "bash\n[exit code 0]"},
		{"nothing carries over", in{"command": "echo ${A:-none}; cd sub"}, false, "none\n[exit code 0]"},
		{"a dash first", in{"command": "-x"}, true, "bash: line 1: -x: command not found\n[exit code 127]"},
		{"escapes", in{"command": `printf '\033[31mred\033[0m \033]0;title\007x\033(B\n10%%\r50%%\r100%%\nab\bc\001\377\n'`}, false, "red x\n100%\nac\uFFFD\n[exit code 0]"},
		{"signal", in{"command": "kill -SEGV $$"}, true, "[killed: segmentation fault]"},
		{"number as a string", in{"command": "echo a", "timeout_seconds": "30"}, false, "a\n[exit code 0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			if res := b.call("shell", c.in); res.Text != c.text || res.Failed != c.failed {
				t.Errorf("failed %v, text %q, want %q", res.Failed, res.Text, c.text)
			}
		})
	}
}

func TestShellTimeout(t *testing.T) {
	b := newBench(t)
	res := b.call("shell", in{"command": "echo begin; sleep 1000", "timeout_seconds": 1})
	b.want(res, true, "begin\n", "background", "\n[killed: timeout after 1 s]")
	if !strings.Contains(res.Short, "timeout") {
		t.Error(res.Short)
	}
}

func TestShellRefuses(t *testing.T) {
	b := newBench(t)
	b.want(b.call("shell", in{"command": " "}), true, "empty")
	b.want(b.call("shell", in{"command": "x", "cmd": "y"}), true, `argument "cmd" does not exist`, "command, cwd?, env?, timeout_seconds?, background?")
	b.want(b.call("shell", in{"command": "x", "timeout_seconds": 5000}), true, "between 1 and 1800")
	b.want(b.call("shell", in{"command": "x", "env": in{"A=B": "1"}}), true, "env")
	b.want(b.call("shell", in{"command": strings.Repeat("x", 200_000)}), true, "create")
	b.want(b.call("shell", in{"command": "x", "cwd": "not/there"}), true, "not/there")
	b.want(b.call("shell", in{"command": "x", "cwd": "a\nb"}), true, "control character")
}

// TestLongOutput cuts at the lines' borders, and the whole can be read on.
func TestLongOutput(t *testing.T) {
	b := newBench(t)
	res := b.call("shell", in{"command": "seq 1 20000"})
	b.want(res, false, "1\n2\n3\n", "\n20000\n[exit code 0]", "the full output is output:1; read it with view")
	if n := len(res.Text); n > 16_200 {
		t.Errorf("%d bytes", n)
	}
	var head, tail, cut int
	for part := range strings.SplitSeq(res.Text, "\n") {
		if strings.HasPrefix(part, "[... ") {
			fmt.Sscanf(part, "[... %d characters", &cut)
		} else if cut == 0 {
			head += len(part) + 1
		} else if !strings.HasPrefix(part, "[exit") {
			tail += len(part) + 1
		}
	}
	if all := 108894; head+cut+tail != all || res.OutputBytes != int64(all) {
		t.Errorf("%d+%d+%d is not %d; counted %d", head, cut, tail, all, res.OutputBytes)
	}
	b.want(b.call("view", in{"path": "output:1", "start_line": 10000, "end_line": 10001}), false, "10000\t10000\n10001\t10001\n")
	b.want(b.call("search", in{"path": "output:1", "pattern": "^123.4$"}), false, "output:1:12304:12304\n", "[10 matching lines]")
	b.want(b.call("search", in{"path": "output:1", "pattern": "("}), true, "regular expression")
	b.want(b.call("view", in{"path": "output:9"}), true, "output:9 does not exist; saved outputs are output:1 to output:1")
}

// TestHugeOutput prints a gigabyte, in lines and as one, in bounded memory.
func TestHugeOutput(t *testing.T) {
	b := newBench(t)
	const least = 100_000_000 // many times what may be held
	long := strconv.Itoa(tier.Count(2*least, 1_000_000_000))
	for _, command := range []string{"head -c " + long + " /dev/zero | tr '\\0' x", "yes | head -c " + strconv.Itoa(least)} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		res := b.call("shell", in{"command": command, "timeout_seconds": 1800})
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.want(res, false, "characters truncated")
		if len(res.Text) > 20_000 || res.OutputBytes < least {
			t.Errorf("%d bytes of %d", len(res.Text), res.OutputBytes)
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
			t.Errorf("%d bytes are held", grown)
		}
		// The store ends it, too.
		if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 64<<20 {
			t.Errorf("%d bytes were needed", grown)
		}
	}
	b.want(b.call("view", in{"path": "output:1"}), false, "more bytes in this line")
}

func TestJobs(t *testing.T) {
	b := newBench(t)
	b.want(b.call("shell", in{"command": "mkfifo gate"}), false)
	b.want(b.call("shell", in{"command": "echo up; read x < gate; echo down; exit 4", "background": true}), false, "job j1 started")
	b.want(b.call("shell", in{"command": "echo go > gate"}), false) // which waits for j1
	b.want(b.call("job", in{"id": "j1", "action": "wait"}), true, "up\n", "down\n[exit code 4]")
	b.want(b.call("job", in{"id": "j1", "action": "read"}), true, "no new output", "[exit code 4]")
	b.want(b.call("shell", in{"command": "echo first; exec sleep 1000", "background": true}), false, "job j2 started")
	b.want(b.call("job", in{"id": "j2", "action": "wait", "timeout_seconds": 1}), false, "first\n[running]")
	b.want(b.call("job", in{"id": "j2", "action": "read"}), false, "no new output", "[running]")
	b.want(b.call("job", in{"id": "j2", "action": "kill"}), false, "[killed: ")
	b.want(b.call("job", in{"id": "j7", "action": "read"}), true, `job "j7" does not exist`, "j1 (echo up;", "j2 (")
	b.want(b.call("job", in{"id": "j1", "action": "stop"}), true, "read, wait, kill")
	for i := range 8 {
		b.want(b.call("shell", in{"command": "sleep 1000", "background": true}), false, fmt.Sprintf("job j%d", i+3))
	}
	b.want(b.call("shell", in{"command": "sleep 1000", "background": true}), true, "8 jobs are running", "j10 (sleep 1000, running)")
	if err := b.set.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.want(b.call("job", in{"id": "j3", "action": "read"}), true, "Jobs: none")
}
