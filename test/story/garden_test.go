package story

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/client"
	under "hortus.dev/test/binary"
	wait "hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// patience bounds everything that a story waits for.
var patience = wait.Of(60 * time.Second)

// garden is one data directory with its daemon, or a fleet of them.
type garden struct {
	t   testing.TB
	dir string
	env []string
	// program is the hortus that commands run: the binary, or one that goes to a node of a fleet.
	program string
	// fleet has the nodes of a fleet; nil for one daemon.
	fleet *fleet
	// server is the last `hortus serve`.
	server *server
}

// newGarden makes a data directory that holds what any daemon of this machine makes
// first. When the story is over the daemon is stopped and nothing may be left.
func newGarden(t testing.TB) *garden {
	t.Helper()
	g := newEmptyGarden(t)
	seed, err := seeded()
	if err == nil {
		err = seed.Plant(g.dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// seeded makes the seed once.
var seeded = sync.OnceValues(func() (under.Seed, error) { return under.NewSeed(binary, shared) })

// gardens begins the name of each garden's directory, which is short: sockets lie below it.
const gardens = "hst"

// newEmptyGarden makes one where no daemon has ever been: there is no data directory.
func newEmptyGarden(t testing.TB) *garden {
	t.Helper()
	base, err := os.MkdirTemp("", gardens)
	if err != nil {
		t.Fatal(err)
	}
	g := &garden{t: t, dir: filepath.Join(base, "d"), env: environment(base, binary), program: binary}
	g.env = append(g.env, "HORTUS_DATA_DIR="+g.dir)
	t.Cleanup(func() {
		g.end()
		remove(t, base)
	})
	return g
}

// environment is that of a garden below base whose commands run a program.
func environment(base, program string) []string {
	return []string{
		"PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH"), "HOME=" + base, "TMPDIR=" + os.TempDir(),
		"LANG=C.UTF-8", "HORTUS_CONFIG=" + os.DevNull,
	}
}

// remove removes a garden's directory.
func remove(t testing.TB, base string) {
	open(base)
	if err := os.RemoveAll(base); err != nil {
		t.Errorf("remove the data directory: %v", err)
	}
}

// open makes what workspaces leave removable: an overlay closes its work directory,
// and guests close what they like.
func open(base string) {
	_ = filepath.WalkDir(base, func(path string, d os.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil // a directory is opened before it is read
	})
}

// shareKernel has sandboxes on this machine's kernel, so that their processes are
// seen from here.
func (g *garden) shareKernel() { g.env = append(g.env, "HORTUS_ISOLATION=container") }

// light makes what is not the story's matter cheap in T1: sandboxes on this machine's
// kernel, and none booted ahead. T2 has the defaults, except on a fleet.
func (g *garden) light() {
	if !tier.Soaking() || g.fleet != nil {
		g.env = append(g.env, "HORTUS_ISOLATION=container", "HORTUS_POOL=0")
	}
}

// unpooled boots no sandbox ahead that the story would not use.
func (g *garden) unpooled() { g.env = append(g.env, "HORTUS_POOL=0") }

// command is a hortus that is ready to start.
func (g *garden) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.program, args...)
	cmd.Env = g.env
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// result is how a command ended.
type result struct {
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("exit %d\n[stdout]\n%s\n[stderr]\n%s", r.code, r.stdout, r.stderr)
}

// run runs hortus to its end.
func (g *garden) run(args ...string) result {
	g.t.Helper()
	return g.input(nil, args...)
}

// input runs hortus with a stdin.
func (g *garden) input(stdin io.Reader, args ...string) result {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := g.command(ctx, args...)
	cmd.Stdin = stdin
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		g.t.Errorf("hortus %q did not end within %s", args, patience)
	}
	return result{stdout.String(), stderr.String(), exitOf(g.t, err)}
}

// must runs hortus and wants success; it gives stdout.
func (g *garden) must(args ...string) string {
	g.t.Helper()
	r := g.run(args...)
	if r.code != 0 {
		g.t.Fatalf("hortus %q: %s", args, r)
	}
	return r.stdout
}

func exitOf(t testing.TB, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	t.Errorf("run hortus: %v", err)
	return -1
}

// client speaks to the daemon that runs.
func (g *garden) client() *client.Client { return client.Unix(filepath.Join(g.dir, "hortus.sock")) }

// decode reads a JSON document.
func decode[T any](t testing.TB, doc string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatalf("not the JSON that was expected: %v\n%s", err, doc)
	}
	return v
}

// until polls until ok gives no reason to go on waiting. A question that runs hortus is asked less often, so that it does
// not take the processor from what it waits for.
func until(t testing.TB, what string, ok func() (reason string)) {
	t.Helper()
	reason := ""
	for end := time.Now().Add(patience); time.Now().Before(end); {
		asked := time.Now()
		if reason = ok(); reason == "" {
			return
		}
		pause := 5 * time.Millisecond
		if took := time.Since(asked); took > 4*pause {
			pause = min(3*took, 300*time.Millisecond)
		}
		time.Sleep(pause)
	}
	t.Fatalf("%s: %s", what, reason)
}

// end stops the daemon and wants nothing to be left.
func (g *garden) end() {
	g.t.Helper()
	if g.fleet != nil {
		g.fleet.end()
		return
	}
	if _, err := os.Stat(g.dir); err != nil {
		return // no daemon ever ran
	}
	if g.t.Failed() && daemonOf(g.dir) == 0 {
		// It failed between two daemons, perhaps: the next one ends what the last one
		// left running.
		g.run("sandbox", "ls")
	}
	if daemonOf(g.dir) != 0 {
		if r := g.run("daemon", "stop", "--force"); r.code != 0 {
			g.t.Errorf("daemon stop: %s", r)
		}
	}
	g.gone()
	until(g.t, "nothing is left", func() string { return strings.Join(g.leftovers(), "\n") })
}

// gone waits until there is no daemon.
func (g *garden) gone() {
	g.t.Helper()
	until(g.t, "the daemon leaves", func() string {
		if pid := daemonOf(g.dir); pid != 0 {
			return fmt.Sprintf("daemon %d is there", pid)
		}
		return ""
	})
}

// leftovers names what a daemon that has gone left of its sandboxes.
func (g *garden) leftovers() (left []string) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, g.dir+"/") {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	for _, kind := range []string{"gvisor", "container", "process"} {
		entries, err := os.ReadDir(filepath.Join(g.dir, "run", kind))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			left = append(left, err.Error())
		}
		for _, e := range entries {
			left = append(left, "run directory "+filepath.Join(kind, e.Name()))
		}
	}
	return append(left, g.cgroups()...)
}

// cgroups lists the control groups of the data directory's sandboxes.
func (g *garden) cgroups() []string {
	var names []string
	for _, kind := range []string{"gvisor", "container"} {
		h := fnv.New64a()
		h.Write([]byte(filepath.Join(g.dir, "run", kind)))
		names = append(names, fmt.Sprintf("hortus-%d-%016x", os.Geteuid(), h.Sum64()))
	}
	var out []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && slices.Contains(names, d.Name()) {
			out = append(out, "control group "+path)
		}
		return nil // groups come and go during the walk
	})
	return out
}
