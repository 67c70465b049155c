package agents

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/task/sandboxes"
	"hortus.dev/test/world"
)

// toolbox is a set of tools over a real sandbox.
type toolbox struct {
	t       *testing.T
	sandbox sandboxes.Sandbox
	set     *tool.Set
	all     map[string]loop.Tool
}

func newToolbox(t *testing.T) *toolbox {
	t.Helper()
	t.Parallel()
	w := world.Open(t, world.Config{})
	w.Isolates(t, "")
	made := world.Must(w.TaskSandboxes.Create(api.WithPrincipal(t.Context(), api.Operator()), api.CreateSandbox{TTLMS: (20 * time.Minute).Milliseconds()}))(t)
	keep := world.Must(tool.NewFiles(t.TempDir(), 0, 0))(t)
	b := &toolbox{t: t, sandbox: made.(sandboxes.Sandbox), all: map[string]loop.Tool{}}
	b.set = tool.New(tool.Config{Sandbox: b.sandbox, Keep: keep})
	for _, x := range b.set.All() {
		b.all[x.Spec().Name] = x
	}
	t.Cleanup(func() {
		if err := b.set.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := b.sandbox.Close(context.Background()); err != nil {
			t.Error(err)
		}
		keep.Close()
	})
	return b
}

type input map[string]any

func (b *toolbox) call(name string, in input) (loop.Result, error) {
	b.t.Helper()
	raw := world.Must(json.Marshal(in))(b.t)
	return b.all[name].Call(b.t.Context(), raw)
}

// want calls a tool and looks for parts of its text.
func (b *toolbox) want(name string, in input, failed bool, parts ...string) loop.Result {
	b.t.Helper()
	res, err := b.call(name, in)
	if err != nil {
		b.t.Fatalf("%s %v: %v", name, in, err)
	}
	if res.Failed != failed {
		b.t.Errorf("%s %v: failed is %v:\n%s", name, in, res.Failed, res.Text)
	}
	for _, p := range parts {
		if !strings.Contains(res.Text, p) {
			b.t.Errorf("%s %v: %q is not in\n%s", name, in, p, res.Text)
		}
	}
	return res
}

func TestToolsInASandbox(t *testing.T) {
	b := newToolbox(t)
	b.want("create", input{"path": "calc.py", "content": "#!/usr/bin/env python3\ndef add(a, b):\n    return a - b\n\nprint(add(1, 2))\n"}, false, "created calc.py (+5 -0)")
	b.want("shell", input{"command": "pwd; ./calc.py; stat -c %a calc.py"}, false, "/workspace\n-1\n755\n[exit code 0]")
	b.want("str_replace", input{"path": "/workspace/calc.py", "old": "a - b", "new": "a + b"}, false, "edited calc.py (+1 -1)")
	b.want("shell", input{"command": "./calc.py; stat -c %a calc.py; ls -A"}, false, "3\n755\ncalc.py\n[exit code 0]")
	// Calls that read come from several goroutines.
	var reads sync.WaitGroup
	for range 8 {
		for name, in := range map[string]input{"view": {"path": "calc.py"}, "search": {"pattern": "return a . b"}, "find": {"glob": "*.py"}, "map": {}, "outline": {"path": "calc.py"}} {
			reads.Go(func() {
				if res, err := b.call(name, in); err != nil || res.Failed || !strings.Contains(res.Text, "add") && !strings.Contains(res.Text, "calc.py") {
					t.Errorf("%s: %+v, %v", name, res, err)
				}
			})
		}
	}
	reads.Wait()
	b.want("view", input{"path": "."}, false, "calc.py  ")
	b.want("shell", input{"command": "echo begin; sleep 1000", "timeout_seconds": 1}, true, "begin\n", "[killed: timeout after 1 s]")
	b.want("shell", input{"command": "x", "cwd": "nope"}, true)
	b.want("shell", input{"command": "cat"}, false, "[exit code 0]")
	b.want("shell", input{"command": "kill -SEGV $$"}, true, "[killed: SIGSEGV]")
	// What a command leaves behind does not hold it.
	b.want("shell", input{"command": "sleep 1000 & echo left"}, false, "left\n[exit code 0]")

	// What is no file neither hangs nor shows anything of the host.
	b.want("shell", input{"command": "mkfifo fifo; ln -s /dev/zero zero; ln -s /proc/self/environ environ; ln -s /etc/shadow shadow; ln -s loop loop"}, false)
	for _, name := range []string{"fifo", "zero", "loop", "shadow"} {
		b.want("view", input{"path": name}, true)
		b.want("outline", input{"path": name + "/../" + name}, true)
		if name != "shadow" || os.Geteuid() == 0 {
			b.want("create", input{"path": name, "content": "x"}, true)
		} // if there is one identity, the sandbox's own /etc is its user's
	}
	// It would be the guest's own. That is another identity's; where a sandbox has
	// only one, the kernel says that it has no bytes, and so many are read.
	if res, err := b.call("view", input{"path": "environ"}); err != nil || !strings.Contains(res.Text, "permission denied") && !strings.Contains(res.Text, "is empty") {
		t.Errorf("%+v, %v", res, err)
	}
	b.want("search", input{"pattern": "root"}, false, "No lines match.") // through no link, and not in the fifo
	b.want("view", input{"path": "../etc/passwd"}, false, "root")        // the sandbox's own
}

// TestListOfABox: what a program made is listed by the names of regular files alone.
func TestListOfASandbox(t *testing.T) {
	b := newToolbox(t)
	b.want("shell", input{"command": "mkdir -p d/e; echo a >d/e/x; echo bb >y; ln -s /etc/passwd link; ln -s d dirlink; ln -s / root; mkfifo p; ln -s y same"}, false)
	files := world.Must(b.sandbox.List(t.Context()))(t)
	got := map[string]int64{}
	for _, f := range files {
		got[f.Path] = f.Size
		if f.ModTime.IsZero() {
			t.Errorf("%s has no time", f.Path)
		}
	}
	if want := map[string]int64{"d/e/x": 2, "y": 3}; !maps.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

func TestJobsInASandbox(t *testing.T) {
	b := newToolbox(t)
	b.want("shell", input{"command": "mkfifo gate; echo up; read x < gate; echo $x; exit 3", "background": true}, false, "job j1 started")
	b.want("shell", input{"command": "until [ -p gate ]; do sleep 0.1; done; echo down > gate"}, false)
	b.want("job", input{"id": "j1", "action": "wait"}, true, "up\ndown\n[exit code 3]")
	b.want("shell", input{"command": "echo $$ > pid; sleep 1000 & wait", "background": true}, false, "job j2 started")
	b.want("shell", input{"command": "until [ -s pid ]; do sleep 0.1; done; kill -0 $(cat pid)"}, false)
	b.want("job", input{"id": "j2", "action": "kill"}, false, "[killed: SIGKILL]")
	b.want("shell", input{"command": "kill -0 $(cat pid)"}, true)
	b.want("shell", input{"command": "sleep 1000", "background": true, "timeout_seconds": 1}, false)
	b.want("job", input{"id": "j3", "action": "wait"}, true, "[killed: timeout after 1 s]")

	// More than is kept: its end is there, and the gap is said.
	b.want("shell", input{"command": "seq 1 1000000", "background": true}, false)
	b.want("job", input{"id": "j4", "action": "wait", "timeout_seconds": 600}, false, "earlier bytes were discarded]", "\n1000000\n[exit code 0]")

	// Close ends what runs, whether or not it wants to.
	b.want("shell", input{"command": "trap '' TERM INT; echo $$ > pid; while :; do sleep 1; done", "background": true}, false)
	b.want("shell", input{"command": "until kill -0 $(cat pid); do sleep 0.1; done"}, false)
	world.OK(t, b.set.Close(t.Context()))
	b.want("shell", input{"command": "kill -0 $(cat pid)"}, true)
}

// TestJobOfAnEndedSandbox: the end of the sandbox ends its jobs, and the loop.
func TestJobOfAnEndedSandbox(t *testing.T) {
	b := newToolbox(t)
	b.want("shell", input{"command": "sleep 1000", "background": true}, false)
	if proof, err := b.sandbox.Close(t.Context()); err != nil || proof.Left != 0 {
		t.Fatalf("%+v, %v", proof, err)
	}
	res, err := b.call("job", input{"id": "j1", "action": "wait"})
	if err != nil || !res.Failed || !strings.Contains(res.Text, "[killed: ") {
		t.Errorf("%+v, %v", res, err)
	}
	for name, in := range map[string]input{"shell": {"command": "true"}, "view": {"path": "x"}, "find": {"glob": "x"}} {
		if res, err := b.call(name, in); err == nil {
			t.Errorf("%s after the end: %+v", name, res)
		}
	}
}
