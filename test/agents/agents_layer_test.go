package agents

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// agentAttacks try to change the program of an agent, which lies in at, so that the next round or task runs something else.
var agentAttacks = []struct{ name, script string }{
	{"write", `echo evil > $at/bin/agent`},
	{"append", `echo evil >> $at/bin/agent`},
	{"a new file", `echo evil > $at/bin/preload`},
	{"mode", `chmod 700 $at/bin/agent`},
	{"remove", `rm -rf $at`},
	{"rename it", `mv $at $at.old; mkdir -p $at/bin; echo evil > $at/bin/agent`},
	{"rename the directory above", `mv ${at%/*} moved; mkdir -p $at/bin; echo evil > $at/bin/agent`},
	{"rename Git's directory", `mv .git moved; mkdir -p $at/bin; echo evil > $at/bin/agent`},
	{"a link in its place", `rm -rf .git/hortus; mkdir /tmp/e; ln -s /tmp/e .git/hortus`},
	{"a hard link", `ln $at/bin/agent alias && echo evil > alias`},
	{"unmount", `unshare -rm sh -c "umount -l $at; echo evil > $at/bin/agent" || { umount -l $at; echo evil > $at/bin/agent; }`},
	{"remount", `mount -o remount,bind,rw $at; echo evil > $at/bin/agent`},
}

// TestAgentLayer: nothing in the sandbox of an agent changes the agent's program, also as root. Each attack succeeds on a plain
// copy. Without the read-only mount it changes the workspace, and still not the layer: another workspace over it has the program.
func TestAgentLayer(t *testing.T) {
	t.Parallel()
	w := world.Open(t, world.Config{GVisor: true})
	ctx := api.WithPrincipal(t.Context(), api.Operator())
	const root = ".git/hortus/agents/an-agent-1"
	agent, release, err := w.TaskSandboxes.Layer(ctx, "test of an agent's layer", func(_ context.Context, dir string) error {
		at := filepath.Join(dir, root, "bin")
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(at, "agent"), []byte("good\n"), 0o755)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, isolation := range tier.First(1, []string{"container", "gvisor"}) {
		t.Run(isolation, func(t *testing.T) {
			// in runs a script in a sandbox over a new workspace, and prints what it says.
			in := func(access []filerule.Access, script string) string {
				t.Helper()
				ws := world.Must(w.TaskSandboxes.Workspace(ctx, "", agent, repo.Layer(layerOf(t, w))))(t)
				c, err := w.TaskSandboxes.Open(ctx, api.CreateSandbox{Isolation: isolation}, ws, access)
				if kind := api.KindOf(err); kind == api.KindUnsupported || kind == api.KindUnisolated {
					t.Skipf("this host has no %s: %v", isolation, err)
				}
				if err != nil {
					t.Fatal(err)
				}
				var out strings.Builder
				req := api.ExecRequest{Args: []string{"sh", "-c", "at=" + root + "\n" + script}, Dir: repo.Workspace, User: "root"}
				x, err := c.Run(ctx, req, func(_ string, p []byte) error { out.Write(p); return nil })
				if err != nil || x.Exit.Code != 0 {
					t.Errorf("%+v, %v: %s", x.Exit, err, out.String())
				}
				if _, err := c.Close(ctx); err != nil {
					t.Error(err)
				}
				return out.String()
			}
			const look = `look() { cat $at/bin/agent; ls $at/bin; stat -c '%a %F' $at/bin/agent .git .git/hortus; }; `
			for _, fixed := range []bool{true, false} {
				var access []filerule.Access
				script, want := look, ""
				if fixed {
					access = filerule.Fix(nil, root)
					script += "before=$(look 2>&1)\n"
					for i, a := range agentAttacks {
						script += fmt.Sprintf("c=/tmp/copy%d; mkdir $c; cp -a .git $c; cd $c; plain=$(look 2>&1)\n( %s\n) >/dev/null 2>&1 </dev/null; cd $c; [ \"$(look 2>&1)\" != \"$plain\" ] || echo '%s: the control failed'\n", i, a.script, a.name)
						script += fmt.Sprintf("rm -rf /tmp/e; cd /workspace; ( %s\n) >/dev/null 2>&1 </dev/null; cd /workspace; [ \"$(look 2>&1)\" = \"$before\" ] || echo '%s succeeded'\n", a.script, a.name)
					}
					// Git's own directory is otherwise as it was.
					script += "echo x > .git/file && mv .git/file .git/hortus/file && cat .git/hortus/file\n"
					want = "x\n"
				} else {
					script += "echo evil > $at/bin/agent; cat $at/bin/agent\n"
					want = "evil\n"
				}
				if got := in(access, script); got != want {
					t.Errorf("fixed %v: %s", fixed, got)
				}
				if got := in(nil, "cat $at/bin/agent; ls $at/bin"); got != "good\nagent\n" {
					t.Errorf("fixed %v: the next workspace has %q", fixed, got)
				}
			}
		})
	}
}
