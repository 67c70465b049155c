package agents

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/repo"
	"hortus.dev/internal/task/sandboxes"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// clones are sandboxes of one task, of one isolation.
type clones struct {
	t    *testing.T
	w    *world.World
	ctx  context.Context
	task api.TaskID
	p    repo.Preparation
	// of is in use, and was made over work.
	of   repo.Sandbox
	work api.WorkspaceID
}

// counter is a program that has a name and a number in its memory only, and writes both to a file that is not in the workspace.
func counter(file string) []string {
	return []string{"/bin/sh", "-c", `t=$(od -An -N8 -tx8 /dev/urandom); i=0; while :; do i=$((i+1)); echo $t $i >` + file + `.new; mv ` + file + `.new ` + file + `; sleep 0.05; done`}
}

func newClones(t *testing.T, w *world.World, isolation string, change ...func(*api.CreateSandbox)) *clones {
	t.Helper()
	k := &clones{t: t, w: w, ctx: api.WithPrincipal(t.Context(), api.Operator()), task: api.NewTaskID()}
	k.p = repo.Preparation{
		Sandbox: api.CreateSandbox{Isolation: isolation, Task: k.task, TTLMS: (10 * time.Minute).Milliseconds(), Labels: map[string]string{"of": "copies"}},
		Access:  []filerule.Access{{Path: "fixed", ReadOnly: true}},
		Services: []repo.Service{{
			Name: "count", Exec: api.ExecRequest{Args: counter("/tmp/service")}, Ready: api.ExecRequest{Args: []string{"test", "-s", "/tmp/service"}},
		}},
	}
	for _, f := range change {
		f(&k.p.Sandbox)
	}
	layer, release, err := w.TaskSandboxes.Layer(k.ctx, string(k.task), func(_ context.Context, dir string) error {
		if err := os.Mkdir(filepath.Join(dir, "fixed"), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "fixed", "file"), []byte("fixed\n"), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	k.work = world.Must(w.TaskSandboxes.Workspace(k.ctx, k.task, layer))(t)
	k.of = world.Must(w.TaskSandboxes.Open(k.ctx, k.p.Sandbox, k.work, k.p.Access))(t)
	t.Cleanup(func() { k.end(k.of, k.work) })
	world.OK(t, repo.Serve(k.ctx, k.of, k.p.Services))
	return k
}

// end ends a sandbox and removes its workspace.
func (k *clones) end(c repo.Sandbox, ws api.WorkspaceID) {
	k.t.Helper()
	ctx := context.WithoutCancel(k.ctx)
	if proof, err := c.Close(ctx); err != nil || proof.Left != 0 {
		k.t.Errorf("%+v, %v", proof, err)
	}
	if err := k.w.TaskSandboxes.Discard(ctx, ws); err != nil {
		k.t.Error(err)
	}
}

// run runs a script, and returns what it printed and its exit code.
func (k *clones) run(c repo.Sandbox, script string) (string, int) {
	k.t.Helper()
	var out strings.Builder
	x, err := c.Run(k.ctx, api.ExecRequest{Args: []string{"/bin/sh", "-c", script}}, func(_ string, p []byte) error {
		out.Write(p)
		return nil
	})
	if err != nil {
		k.t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(out.String()), x.Exit.Code
}

// count reads what a counter wrote; its name is empty if there is none.
func (k *clones) count(c repo.Sandbox, file string) (name string, n int) {
	k.t.Helper()
	out, code := k.run(c, "cat "+file)
	if code != 0 {
		return "", 0
	}
	if _, err := fmt.Sscan(out, &name, &n); err != nil {
		k.t.Fatalf("%q: %v", out, err)
	}
	return name, n
}

// grows waits until a counter counts.
func (k *clones) grows(c repo.Sandbox, file string) {
	k.t.Helper()
	_, before := k.count(c, file)
	world.Eventually(k.t, file+" counts", func() bool {
		_, n := k.count(c, file)
		return n > before
	})
}

// left checks the sandboxes that live and the workspaces of the task.
func (k *clones) left(sbs, spaces int) {
	k.t.Helper()
	rows := world.Must(k.w.Sandboxes.Sandboxes.List(k.ctx, false))(k.t)
	n := 0
	for _, r := range rows {
		if r.Task == k.task {
			n++
		}
	}
	ids := world.Must(k.w.Workspaces.List())(k.t)
	m := 0
	for _, id := range ids {
		if w, err := k.w.Workspaces.Get(id); err == nil && w.Task == k.task {
			m++
		}
	}
	if n != sbs || m != spaces {
		k.t.Errorf("%d sandboxes and %d workspaces of the task, want %d and %d", n, m, sbs, spaces)
	}
}

// copyWorld is a daemon with real sandboxes.
func copyWorld(t *testing.T) *world.World {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("gvisor mounts workspaces for root only")
	}
	t.Parallel()
	w := world.Open(t, world.Config{GVisor: true})
	w.Isolates(t, "")
	return w
}

// TestCopyInUse: a copy of a sandbox that is in use has what was written and not committed, and is on its own from then on. Where memory
// can be forked its programs go on; elsewhere its services are started.
func TestCopyInUse(t *testing.T) {
	w := copyWorld(t)
	m := w.Sandboxes
	without := sandboxes.New(sandboxes.Config{
		Creator: quota.New(quota.Config{Creator: m.Creator, Planner: m.Planner, Forker: m.Forker, Templates: m.Templates, Sandboxes: m.Sandboxes, Backends: m.Backends}),
		Guests:  m.Guests, Lifecycle: m.Sandboxes, Stiller: m.Saver, Policies: m.Policies, Planner: m.Planner,
		Layers: w.Layers, Workspaces: w.Workspaces, Sandboxes: w.DB.SandboxesIn,
	})
	for name, by := range map[string]*sandboxes.Provider{"gvisor": w.TaskSandboxes, "gvisor, files alone": without, "container": w.TaskSandboxes} {
		t.Run(name, func(t *testing.T) {
			isolation, _, _ := strings.Cut(name, ",")
			k := newClones(t, w, isolation)
			world.Must(k.of.Start(k.ctx, api.ExecRequest{Args: counter("/tmp/count")}))(t)
			world.Eventually(t, "a program counts", func() bool { name, _ := k.count(k.of, "/tmp/count"); return name != "" })
			k.run(k.of, "echo mine >written; mkdir dir; echo deep >dir/file; ln -s file dir/link; chmod 600 written; seq 300000 >long")
			k.left(1, 1)
			token, n := k.count(k.of, "/tmp/count")
			served, _ := k.count(k.of, "/tmp/service")

			c, err := by.Copy(k.ctx, k.task, k.of, k.p)
			if err != nil {
				t.Fatalf("%v (%s)", err, api.HintOf(err))
			}
			info := c.Info()
			k.left(2, 2)
			if out, _ := k.run(c, "cat written dir/link; stat -c %a written"); out != "mine\ndeep\n600" {
				t.Errorf("the copy has %q", out)
			}
			mine, _ := k.run(k.of, "cksum long")
			if out, _ := k.run(c, "cksum long"); out != mine || mine == "" {
				t.Errorf("a long file is %q, in the copy %q", mine, out)
			}
			// What one writes the other does not have.
			k.run(c, "echo copy >written; echo x >copied; rm dir/file")
			k.run(k.of, "echo again >>written; echo x >later")
			if out, _ := k.run(k.of, "ls; cat written dir/file"); out != "dir\nfixed\nlater\nlong\nwritten\nmine\nagain\ndeep" {
				t.Errorf("the computer has %q", out)
			}
			if out, _ := k.run(c, "ls; cat written; ls dir"); out != "copied\ndir\nfixed\nlong\nwritten\ncopy\nlink" {
				t.Errorf("the copy has %q", out)
			}
			for what, at := range map[string]repo.Sandbox{"the computer": k.of, "the copy": c} {
				if out, code := k.run(at, "cat fixed/file; echo x >fixed/file"); code == 0 || !strings.HasPrefix(out, "fixed\n") {
					t.Errorf("%s: exit code %d, %q", what, code, out)
				}
			}
			// Its programs.
			k.grows(k.of, "/tmp/count")
			k.grows(k.of, "/tmp/service")
			k.grows(c, "/tmp/service")
			same, m := k.count(c, "/tmp/count")
			alike, _ := k.count(c, "/tmp/service")
			if name == "gvisor" {
				k.grows(c, "/tmp/count")
				if same != token || m < n || alike != served || info.Parent != k.of.Info().ID {
					t.Errorf("the program %s counted to %d, in the copy %s to %d; the service is %s and %s; parent %s", token, n, same, m, served, alike, info.Parent)
				}
			} else if same != "" || alike == "" || alike == served || info.Parent != "" {
				t.Errorf("a program of the memory is in the copy (%q), or the service was not started (%q, %q)", same, served, alike)
			}
			if _, serves := c.(repo.ServiceSandbox); !serves {
				t.Error("the copy does not say that its services run")
			}
			// A copy of the copy, and copies at once.
			made := make(chan repo.Sandbox)
			for _, of := range []repo.Sandbox{k.of, c, k.of} {
				go func() {
					c, err := by.Copy(k.ctx, k.task, of, k.p)
					if err != nil {
						t.Error(err)
					}
					made <- c
				}()
			}
			for range 3 {
				if c := <-made; c != nil {
					if _, code := k.run(c, "test -e later -o -e copied"); code != 0 {
						t.Error("a copy has nothing of what it was made of")
					}
					k.end(c, c.Info().Workspace)
				}
			}
			k.end(c, info.Workspace)
			k.left(1, 1)
			k.grows(k.of, "/tmp/count")

			// One that a person paused is not copied, and stays paused; a resume of a person does not meet a copy.
			world.Must(w.Sandboxes.Sandboxes.Pause(k.ctx, k.of.Info().ID))(t)
			if _, err := by.Copy(k.ctx, k.task, k.of, k.p); api.KindOf(err) != api.KindConflict || !strings.Contains(api.HintOf(err), "resume") {
				t.Errorf("%v (%s)", err, api.HintOf(err))
			}
			if row, err := w.Sandboxes.Sandboxes.Resume(k.ctx, k.of.Info().ID); err != nil || row.State != api.SandboxRunning {
				t.Errorf("%s, %v", row.State, err)
			}
			k.left(1, 1)
		})
	}
}

// TestCopyGivenUp gives up copies after more and more time: nothing is left of them, and the sandbox goes on.
func TestCopyGivenUp(t *testing.T) {
	w := copyWorld(t)
	for _, isolation := range tier.First(1, []string{"gvisor", "container"}) {
		t.Run(isolation, func(t *testing.T) {
			k := newClones(t, w, isolation)
			k.run(k.of, "for i in $(seq 200); do echo $i >f$i; done")
			gaveUp := 0
			for after, tries := 2*time.Millisecond, 0; tries < 12; after, tries = after*8/5, tries+1 {
				ctx, cancel := context.WithTimeout(k.ctx, after)
				c, err := w.TaskSandboxes.Copy(ctx, k.task, k.of, k.p)
				cancel()
				if err == nil {
					k.end(c, c.Info().Workspace)
				} else {
					gaveUp++
				}
				k.left(1, 1)
				k.grows(k.of, "/tmp/service")
			}
			if gaveUp == 0 {
				t.Error("no copy was given up")
			}
		})
	}
}

// TestCopyTooMuch: more than a copy may have is refused, and the sandbox goes on. What is said to do can be done in a task; a person who
// forks is told something else.
func TestCopyTooMuch(t *testing.T) {
	w := copyWorld(t)
	for _, isolation := range tier.First(1, []string{"container", "gvisor"}) {
		t.Run(isolation, func(t *testing.T) {
			k := newClones(t, w, isolation)
			k.run(k.of, fmt.Sprintf("truncate -s %d big", workspace.Forkable().Bytes+1))
			// It is what is stored that counts; gVisor does not tell that of a file without content.
			if n, _ := k.run(k.of, "stat -c %b big"); n == "0" {
				c := world.Must(w.TaskSandboxes.Copy(k.ctx, k.task, k.of, k.p))(t)
				k.end(c, c.Info().Workspace)
			} else if isolation != "gvisor" {
				t.Errorf("a file without content has %s blocks", n)
			}
			much := fmt.Sprintf("fallocate -l %d big", workspace.Forkable().Bytes+1)
			if tier.Soaking() {
				much = fmt.Sprintf("seq %d | xargs touch", workspace.Forkable().Files+1)
			}
			if said, code := k.run(k.of, "rm big; mkdir d && cd d && "+much+" 2>&1"); code != 0 {
				t.Fatalf("%s: %s", much, said)
			}
			if _, err := w.TaskSandboxes.Copy(k.ctx, k.task, k.of, k.p); api.KindOf(err) != api.KindExhausted || !strings.HasPrefix(api.HintOf(err), "remove what is not needed") {
				t.Errorf("%v (%s)", err, api.HintOf(err))
			}
			if isolation == "gvisor" {
				if _, err := w.Sandboxes.Forker.Fork(k.ctx, k.of.Info().ID, api.ForkSandbox{}); api.KindOf(err) != api.KindExhausted || !strings.Contains(api.HintOf(err), "hortus workspace fork") {
					t.Errorf("%v (%s)", err, api.HintOf(err))
				}
			}
			k.left(1, 1)
			k.grows(k.of, "/tmp/service")
			k.run(k.of, "rm -r d")
			c := world.Must(w.TaskSandboxes.Copy(k.ctx, k.task, k.of, k.p))(t) // the control
			k.end(c, c.Info().Workspace)
		})
	}
}
