package story

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// countingServer writes each number into a file that it keeps open, and into its memory. It answers every connection with the number that it
// has in memory and the last one in the file, after it has counted on.
const countingServer = `
import socket
n = 0
f = open("/workspace/count", "a+")
s = socket.create_server(("127.0.0.1", 7102))
while True:
    c, _ = s.accept()
    n += 1
    f.write("%d\n" % n); f.flush()
    f.seek(0)
    c.sendall(("%d %s" % (n, f.read().split()[-1])).encode())
    c.close()
`

// forkSpaces is a sandbox with a workspace and that program, which is forked while the daemon is killed.
type forkSpaces struct {
	t             *testing.T
	g             *garden
	parent, space string
	count         int
}

func newForkSpaces(t *testing.T, g *garden) *forkSpaces {
	t.Helper()
	k := &forkSpaces{t: t, g: g, space: strings.TrimSpace(g.must("workspace", "create", "shop"))}
	k.parent = strings.TrimSpace(g.must("sandbox", "create", "--ttl", "2h", "--workspace", "shop"))
	g.must("sandbox", "exec", k.parent, "--", "sh", "-c", `printf %s "$1" >/tmp/counter.py; setsid python3 /tmp/counter.py </dev/null >/tmp/log 2>&1 &
i=0; while [ $i -lt 8000 ]; do echo $i >/workspace/f$i; i=$((i+1)); done; until grep -q :1BBE /proc/net/tcp; do sleep 0.05; done`, "sh", countingServer)
	return k
}

// counts lets the program of a sandbox count to want, in memory and in its file.
func (k *forkSpaces) counts(id string, want int) {
	k.t.Helper()
	got := k.g.must("sandbox", "exec", id, "--", "python3", "-c", `import socket; print(socket.create_connection(("127.0.0.1", 7102)).makefile().read())`)
	if got != fmt.Sprintf("%d %d\n", want, want) {
		k.t.Errorf("%s counts %q, want %d", id, got, want)
	}
}

// spaces are the workspaces that are there.
func (k *forkSpaces) spaces() map[string]api.Workspace {
	k.t.Helper()
	out := map[string]api.Workspace{}
	for _, w := range decode[[]api.Workspace](k.t, k.g.must("workspace", "ls", "--json")) {
		out[string(w.ID)] = w
	}
	return out
}

// TestDaemonKilledWhileForkingWithWorkspace kills the daemon at random instants while it forks a sandbox with a workspace. Whoever runs
// afterwards has the memory and the files of the fork, and no workspace is there that no child has. HORTUS_TEST_KILLS=60 kills
// as often as that.
func TestDaemonKilledWhileForkingWithWorkspace(t *testing.T) {
	tier.Soak(t) // TestKilledInEveryPhase is its small counterpart
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=gvisor")
	g.canSaveMemory()
	g.can("gvisor", api.CapWorkspace)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 84))
	t.Logf("seed %d", seed)
	k := newForkSpaces(t, g)
	var took time.Duration
	n, fell := killCount(t, 3, 60), map[int]int{} // one at each of the three instants
	for i := range n + 1 {
		what, control := fmt.Sprintf("kill %d", i-1), i == 0
		k.count++
		k.counts(k.parent, k.count)
		pid := daemonOf(g.dir)
		began := time.Now()
		run := g.start("sandbox", "fork", k.parent, "--count", "2", "--ttl", "1h")
		if control {
			what = "control"
			if code := run.ends(); code != 0 {
				t.Fatalf("a fork without a kill: %s", run.output)
			}
			took = time.Since(began)
		} else {
			there := func(pattern string, most int) func() string {
				return func() string {
					if dirs, err := filepath.Glob(filepath.Join(g.dir, "workspaces", pattern)); err != nil || len(dirs) < most && !run.succeeded() {
						return fmt.Sprint(dirs, err)
					}
					return ""
				}
			}
			switch i % 3 {
			case 0: // while children start
				until(t, what+": a workspace of a child is there, or the fork is over", there("w*", 3))
				<-time.NewTimer(time.Duration(random.Int64N(int64(took / 2)))).C
			case 1: // at the standstill
				until(t, what+": a copy has begun, or the fork is over", there("new-*", 1))
			default:
				<-time.NewTimer(time.Duration(random.Int64N(int64(took)))).C
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatalf("kill daemon %d: %v", pid, err)
			}
			run.ends()
		}
		used := map[string]string{k.space: k.parent}
		for id, s := range g.rows() {
			if s.State.Final() {
				continue
			}
			if s.State != api.SandboxRunning {
				t.Errorf("%s: sandbox %s is %s: %s", what, id, s.State, s.Reason)
			}
			used[string(s.Workspace)] = id
			if id != k.parent {
				k.counts(id, k.count+1)
				if got := g.must("sandbox", "exec", id, "--", "sh", "-c", "cd /workspace && cat f7999 && ls | wc -l && rm f0"); got != "7999\n8001\n" {
					t.Errorf("%s: %s has the files %q", what, id, got)
				}
			}
		}
		k.count++
		k.counts(k.parent, k.count)
		spaces := k.spaces()
		if len(spaces) != len(used) {
			t.Errorf("%s: the workspaces are %v, and used are %v", what, spaces, used)
		}
		for id, w := range spaces {
			if used[id] == "" || string(w.Sandbox) != used[id] || !w.Keep {
				t.Errorf("%s: workspace %+v; its sandbox is %q", what, w, used[id])
			}
		}
		until(t, what+": the directories are those of workspaces", func() string {
			dirs, err := filepath.Glob(filepath.Join(g.dir, "workspaces", "*"))
			if err != nil || len(dirs) != len(used) {
				return fmt.Sprint(dirs, err)
			}
			return ""
		})
		fell[len(used)-1]++
		if control && len(used) != 3 {
			t.Errorf("after a fork without a kill there are %v", used)
		}
		for id, sandbox := range used {
			if sandbox != k.parent {
				g.must("sandbox", "kill", sandbox)
				g.must("workspace", "rm", id)
			}
		}
		if t.Failed() {
			t.Fatalf("stopped after %s; the daemon's log:\n%s", what, g.log())
		}
	}
	t.Logf("%d kills; a fork took %s; children that ran: %v", n, took.Round(time.Millisecond), fell)
}
