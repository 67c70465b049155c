package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	wait "hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// bombs are run in a sandbox of their own while another must go on working.
var bombs = []struct {
	name   string
	limits api.Limits
	shell  string // a script, or
	bomb   string // this program's
	users  bool   // as every identity, not only as user
	ends   bool   // it ends by itself on every kernel
	rounds bool   // it takes the number of its rounds
	kernel bool   // T1 has it for a kernel of the sandbox's own, too; T2 has every bomb
	want   func(w *world, r result) string
}{
	{name: "fork bomb of a shell", limits: api.Limits{Processes: 64}, shell: `bomb() { bomb | bomb & }; bomb; while :; do sleep 1; done`, users: true},
	{name: "clone bomb", kernel: true, limits: api.Limits{Processes: 64}, bomb: "clone", users: true, want: noneKept},
	{name: "memory", kernel: true, limits: api.Limits{MemoryBytes: 96 << 20}, bomb: "anonymous", users: true, want: noneKept},
	{name: "shared memory", limits: api.Limits{MemoryBytes: 96 << 20}, bomb: "shared", want: noneKept},
	{name: "memory files", limits: api.Limits{MemoryBytes: 96 << 20}, bomb: "memfd", want: noneKeptIfCounted},
	{name: "System V memory", limits: api.Limits{MemoryBytes: 96 << 20}, bomb: "sysv detached", want: noneKeptIfCounted},
	{name: "System V memory in use", limits: api.Limits{MemoryBytes: 96 << 20}, bomb: "sysv attached", want: noneKept},
	{name: "files in /tmp", limits: api.Limits{MemoryBytes: 96 << 20, DiskBytes: 300 << 20}, bomb: "file /tmp", want: noneKept},
	{name: "files in /dev/shm", kernel: true, limits: api.Limits{MemoryBytes: 96 << 20, DiskBytes: 300 << 20}, bomb: "file /dev/shm", want: noneKept},
	{name: "pipes", limits: api.Limits{MemoryBytes: 96 << 20}, bomb: "pipes", want: noneKeptIfCounted},
	{name: "sockets", limits: api.Limits{MemoryBytes: 96 << 20}, bomb: "sockets", want: noneKeptIfCounted},
	{name: "TCP connections", kernel: true, limits: api.Limits{MemoryBytes: 96 << 20}, bomb: "tcp", want: noneKeptIfCounted},
	{name: "UDP datagrams", limits: api.Limits{MemoryBytes: 96 << 20}, bomb: "udp", want: noneKeptIfCounted},
	{name: "answers of netlink", limits: api.Limits{MemoryBytes: 96 << 20}, bomb: "netlink", want: noneKept},
	{name: "page tables", limits: api.Limits{MemoryBytes: 96 << 20}, bomb: "tables", want: noneKeptIfCounted},
	{name: "disk", kernel: true, limits: api.Limits{DiskBytes: 48 << 20}, bomb: "disk", users: true, want: everyPlaceFull},
	// Files without content are memory of a kernel of the sandbox's own, which its limit
	// of memory bounds.
	{name: "inodes", limits: api.Limits{DiskBytes: 48 << 20}, bomb: "inodes", users: true, want: onHostKernel(everyPlaceFull)},
	{name: "descriptors", bomb: "descriptors", ends: true, want: onHostKernel(fewOpened)},
	{name: "zombies", limits: api.Limits{Processes: 200}, bomb: "zombies own", want: onHostKernel(says("stopped:"))},
	{name: "orphans", kernel: true, limits: api.Limits{Processes: 200}, bomb: "zombies orphans", ends: true, want: says("made 400")},
	{name: "signals to the guest by kill", kernel: true, bomb: "signals kill", rounds: true, users: true, ends: true, want: says("sent")},
	{name: "signals to the guest by tkill", bomb: "signals tkill", rounds: true, users: true, ends: true, want: says("sent")},
	{name: "signals to the guest by tgkill", bomb: "signals tgkill", rounds: true, users: true, ends: true, want: says("sent")},
	{name: "signals to the guest by threads", bomb: "signals threads", rounds: true, users: true, ends: true, want: says("sent")},
	{name: "signals to the guest by queue", bomb: "signals queue", rounds: true, users: true, ends: true, want: says("sent")},
	{name: "signals to the guest by pidfd", bomb: "signals pidfd", rounds: true, users: true, ends: true, want: says("sent")},
	{name: "signals to the guest by owner", bomb: "signals owner", rounds: true, users: true, ends: true, want: says("sent")},
	{name: "timers", bomb: "timers", want: onHostKernel(says("stopped:"))},
}

func says(text string) func(*world, result) string {
	return func(_ *world, r result) string {
		if !strings.Contains(r.stdout, text) {
			return "it did not get to say " + text
		}
		return ""
	}
}

// fewOpened wants one process to have no more than its part of the host's open files.
func fewOpened(_ *world, r result) string {
	var n int
	if _, err := fmt.Sscanf(r.stdout, "opened %d", &n); err != nil || n > 16<<10 {
		return "it opened more than 16,384 files, or does not say so"
	}
	return ""
}

// onHostKernel is for what uses up the host's kernel: a kernel of the sandbox's own is
// bounded whole.
func onHostKernel(want func(*world, result) string) func(*world, result) string {
	return func(w *world, r result) string {
		if w.ownKernel() {
			return ""
		}
		return want(w, r)
	}
}

func noneKept(_ *world, r result) string {
	if strings.Contains(r.stdout, "kept") {
		return "nothing stopped it"
	}
	return ""
}

// noneKeptIfCounted is for memory that only the kernel's accounting sees. Where
// there is none, the report says that the limit is best effort.
func noneKeptIfCounted(w *world, r result) string {
	a, _ := w.backend.Probe(context.Background()).Has(api.CapLimitMemory)
	if strings.Contains(a.Reason, "best effort") || w.isolation == "kubernetes" && nodeHasCgroup1() {
		return ""
	}
	return noneKept(w, r)
}

func everyPlaceFull(_ *world, r result) string {
	places := 0
	for line := range strings.Lines(r.stdout) {
		if !strings.HasPrefix(line, "place ") {
			continue
		}
		places++
		if !strings.Contains(line, "no space left") && !strings.Contains(line, "permission denied") && !strings.Contains(line, "not permitted") {
			return "not stopped by a limit: " + line
		}
	}
	// Root inside may write to the whole root, which is then one place.
	whole := strings.Contains(r.stdout, "place / ")
	if places < 2 || !whole && (!strings.Contains(r.stdout, "place /tmp ") || !strings.Contains(r.stdout, "place /workspace ")) {
		return "the walk did not find the places that can be written to"
	}
	return ""
}

func TestBombs(t *testing.T) { onEachAtOnce(t, bombard) }

func bombard(t *testing.T, w *world) {
	calm := w.create(t, nil)
	for _, b := range bombs {
		users := calm.Identities
		if !b.users {
			users = users[:1]
		}
		for _, user := range users {
			t.Run(b.name+"/"+user, func(t *testing.T) {
				if w.isolation == "gvisor" && !b.kernel {
					tier.Soak(t)
				}
				if a, ok := w.backend.Probe(t.Context()).Has(api.CapLimitDisk); !ok && b.limits.DiskBytes > 0 {
					t.Skipf("%s lacks %s: %s", w.isolation, api.CapLimitDisk, a.Reason)
				}
				if a, ok := w.backend.Probe(t.Context()).Has(api.CapLimitProcs); !ok && b.limits.Processes > 0 {
					t.Skipf("%s lacks %s: %s", w.isolation, api.CapLimitProcs, a.Reason)
				}
				sandbox := w.create(t, func(r *api.CreateSandbox) { r.Limits = b.limits })
				args := []string{"sh", "-c", b.shell}
				if b.bomb != "" {
					args = []string{w.program(t, sandbox.ID), roleBomb, w.bomb(b.bomb, b.rounds)}
				}
				// The timeout ends what does not end by itself; what is to come to an end
				// of its own has more time.
				req := api.ExecRequest{Args: args, User: user, TimeoutMS: wait.Of(20 * time.Second).Milliseconds()}
				if b.ends {
					req.TimeoutMS = patience.Milliseconds()
				}
				if (b.bomb == "inodes" || b.bomb == "timers") && w.ownKernel() {
					req.TimeoutMS = 3000 // nothing stops it but the limit of memory, much later or never
				}
				if b.shell != "" || b.bomb == "clone" {
					req.TimeoutMS = 700
				}
				during := make(chan struct{})
				go func() {
					defer close(during)
					w.alive(t, calm.ID)
				}()
				r, err := w.try(within(t), sandbox.ID, req)
				<-during
				if err != nil && !honestErrors[api.KindOf(err)] {
					t.Errorf("%v is of kind %s", err, api.KindOf(err))
				}
				t.Logf("%+v, %v, said %.200q", r.exec.Exit, err, r.stdout)
				if err != nil && w.guestIsUser() && strings.HasPrefix(b.bomb, "signals ") {
					w.ended(t, sandbox.ID)
					w.alive(t, calm.ID)
					return
				}
				if b.want != nil {
					if wrong := b.want(w, r); wrong != "" {
						t.Errorf("%s: %+v, %v\n%.600s%.300s", wrong, r.exec.Exit, err, r.stdout, r.stderr)
					}
				}
				if e := r.exec.Exit; w.isolation == "kubernetes" && b.limits.MemoryBytes > 0 && e.Signal == "SIGKILL" && e.Cause == "" {
					t.Errorf("killed at the limit of memory, which its end does not say: %+v", e)
				}
				w.alive(t, calm.ID)
				// What a command does is its own end, not its sandbox's. A kernel of the
				// sandbox's own may end with its memory, and that is said.
				c, err := w.Guests.Client(t.Context(), sandbox.ID)
				if err == nil {
					err = c.Health(within(t))
				}
				if err != nil && w.mayEnd(b.name) {
					eventually(t, "the sandbox ends for its memory", func() bool { // which a cluster says later
						row, err := w.Sandboxes.Get(t.Context(), sandbox.ID)
						return err == nil && row.State.Final() && strings.Contains(row.Reason, api.CauseMemory)
					})
				} else if err != nil {
					t.Errorf("the guest went with its command: %v", err)
				}
				w.kill(t, sandbox.ID)
				w.alive(t, calm.ID)
			})
		}
	}
}

// bomb returns the argument of a bomb.
func (w *world) bomb(name string, rounds bool) string {
	what, arg, _ := strings.Cut(name, " ")
	if rounds {
		return fmt.Sprintf("%s %d %s", what, tier.Count(3, 50), arg)
	}
	// A walk through the toolchains of the host takes seconds, all of them on the read-only mounts that
	// TestLayersStay writes to. In T1 one does it, through the host's kernel.
	if (what == "inodes" || what == "disk" && w.isolation == "gvisor") && !tier.Soaking() {
		return what + " /usr"
	}
	return name
}

// TestDaemonizedProcess is of one that left its session, its parent and its
// terminal, and hears no signal that can be ignored.
func TestDaemonizedProcess(t *testing.T) { onSharedKernel(t, daemonizedProcess) }

func daemonizedProcess(t *testing.T, w *world) {
	sandbox := w.create(t, nil)
	mark := newMarker("daemon")
	const script = `setsid sh -c 'trap "" HUP INT QUIT TERM USR1 USR2 TSTP; sh -c "trap \"\" HUP INT TERM; while :; do sleep 1000; done" "$0" & while :; do sleep 1000; done' "$0" </dev/null >/dev/null 2>&1 &`
	if r, err := w.try(within(t), sandbox.ID, api.ExecRequest{Args: []string{"sh", "-c", script, mark}}); err != nil || r.exec.Exit.Code != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	// The control: it lives on after its command, and is seen from here.
	eventually(t, "both shells run", func() bool { return countProcesses(mark) >= 2 })
	w.kill(t, sandbox.ID)
	if n := countProcesses(mark); n != 0 {
		t.Errorf("%d processes outlived their sandbox", n)
	}
}

// countProcesses counts the host's processes whose command line has the mark.
func countProcesses(mark string) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(mark)) {
			n++
		}
	}
	return n
}

// TestOutput floods the host with output in every way of not keeping up.
func TestOutput(t *testing.T) {
	tier.AnyUser(t)
	w := newWorld(t)
	calm := w.create(t, nil)
	whole := int64(tier.Count(1, 10)) << 30 // many times what any buffer holds
	start := func(t *testing.T, n int64) (api.SandboxID, interface {
		Next() (*envd.ProcessEvent, error)
		Exec() api.Exec
		Close() error
	}) {
		sandbox := w.create(t, func(r *api.CreateSandbox) { r.Limits = api.Limits{CPUs: 0} })
		s, err := w.Guests.StartExec(within(t), sandbox.ID, api.ExecRequest{Args: []string{"head", "-c", strconv.FormatInt(n, 10), "/dev/zero"}})
		if err != nil {
			t.Fatal(err)
		}
		return sandbox.ID, s
	}
	t.Run("a reader of it all", func(t *testing.T) {
		bounded(t, 64<<20)
		_, s := start(t, whole)
		var n int64
		for {
			ev, err := s.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if ev.Data != nil {
				n += int64(len(ev.Data.Stdout))
			}
		}
		if x := s.Exec(); n != whole || x.OutputBytes != n || x.Exit.Code != 0 {
			t.Errorf("read %d bytes, recorded %+v", n, x)
		}
	})
	t.Run("a reader that never reads", func(t *testing.T) {
		bounded(t, 64<<20)
		id, s := start(t, whole)
		w.alive(t, calm.ID)
		w.alive(t, id) // its own sandbox continues too
		if x := s.Exec(); x.State != api.ExecRunning {
			t.Errorf("a command that nobody reads is %+v; it has to wait", x)
		}
		w.kill(t, id)
		for {
			if _, err := s.Next(); err != nil {
				break
			}
		}
		if x := s.Exec(); x.State != api.ExecUnknown || x.Exit.Cause != api.CauseKilled {
			t.Errorf("recorded as %+v", x)
		}
	})
	t.Run("a client that leaves", func(t *testing.T) {
		bounded(t, 64<<20)
		sandbox := w.create(t, nil)
		c := envd.NewClient(envd.ClientConfig{Dial: w.dialServer, Prefix: "/v1/sandboxes/" + string(sandbox.ID) + "/envd"})
		defer c.Close()
		no := false
		ps, err := c.Start(within(t), &envd.StartRequest{Stdin: &no, Process: &envd.ProcessConfig{Cmd: "head", Args: []string{"-c", "500M", "/dev/zero"}}}, envd.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := ps.Next(); err != nil {
				t.Fatal(err)
			}
		}
		check(t, "leave", ps.Close())
		var rows []api.Exec
		eventually(t, "the command ends without its client", func() bool {
			rows, err = w.Guests.Execs(t.Context(), sandbox.ID)
			return err == nil && len(rows) == 1 && rows[0].State != api.ExecRunning
		})
		if x := rows[0]; x.State != api.ExecExited || x.Exit.Code != 0 {
			t.Errorf("recorded as %+v", x)
		}
	})
	w.alive(t, calm.ID)
}

// TestDeepTree is of a tree that is deeper than any path is long.
func TestDeepTree(t *testing.T) {
	tier.AnyUser(t)
	onEach(t, deepTrees)
}

func deepTrees(t *testing.T, w *world) {
	if w.isolation == "gvisor" {
		tier.Soak(t) // the guest is the same, and its kernel's files are slow
	}
	sandbox := w.create(t, nil)
	depth := tier.Count(3_000, 10_000) // of two bytes each; a path has 4096 at most
	if w.isolation == "wasm" {
		w.deepByClient(t, sandbox.ID, depth)
	} else if r := w.exec(t, sandbox.ID, "user", w.program(t, sandbox.ID), roleBomb, fmt.Sprintf("deep %d /workspace", depth)); r.stdout != fmt.Sprintf("made %d\n", depth) {
		t.Fatalf("%+v", r)
	}
	bounded(t, 64<<20)
	c := w.guest(t, sandbox.ID)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := c.ListDir(ctx, "", "/workspace", 1<<30); ctx.Err() != nil {
		t.Errorf("a listing does not end: %v", err)
	} else {
		t.Logf("the listing: %.100v", err)
	}
	if err := c.Remove(ctx, "", "/workspace/d"); err != nil {
		t.Errorf("remove: %.200v", err)
	}
	if e, err := c.Stat(ctx, "", "/workspace/d"); err == nil {
		t.Errorf("it is still there: %+v", e)
	}
	for _, n := range []int{255, 256, 4095, 4096, 1 << 20} {
		name := strings.Repeat("n", n)
		_, err := c.MakeDir(ctx, "", "/workspace/"+name)
		if (err == nil) != (n <= 255) {
			t.Errorf("a name of %d bytes: %.200v", n, err)
		}
		if err != nil && len(err.Error()) > 16<<10 {
			t.Errorf("a name of %d bytes: an error of %d", n, len(err.Error()))
		}
	}
	w.alive(t, sandbox.ID)
}
