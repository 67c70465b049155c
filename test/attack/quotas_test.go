package attack

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// quotaAttacks use up quotas that the kernel keeps for each user. The user who created
// the sandbox must be able to take some of the quota meanwhile.
var quotaAttacks = []struct {
	name, quota string
	mode        string
	most        int  // what one process takes at most
	want        int  // what the host's user must get
	own         bool // a kernel of the sandbox's own counts them, too
	users       bool // it needs many users inside
}{
	{name: "inotify instances", quota: "inotify", mode: modeTake, most: 4096, want: 30, own: true},
	{name: "inotify instances of many users", quota: "inotify", mode: modeMany, most: 128, want: 30, users: true},
	{name: "pending signals", quota: "signals", mode: modeMany, most: 4096, want: 2000, own: true},
	{name: "timers", quota: "timers", mode: modeMany, most: 4096, want: 2000},
}

// TestQuotas has a sandbox use up each quota while the host's user wants some of it.
func TestQuotas(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if w.isolation != "kubernetes" { // whose sandboxes have uids of their own
			w.notByEngine(t, "without userns-remap the kernel counts users inside as users of the machine")
		}
		for _, a := range quotaAttacks {
			if w.isolation == "gvisor" && !a.own || a.users && os.Getuid() != 0 {
				continue
			}
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				user, has := w.takeQuota(t, a.mode, a.quota, a.most)
				n := quotaLeft(t, a.quota, a.want, os.Getuid())
				t.Logf("%s inside took %d; the host's user got %d of %d", user, has, n, a.want)
				if n < a.want {
					t.Errorf("%s inside took %d; the host's user got %d, not %d", user, has, n, a.want)
				}
			})
		}
	})
}

// takeQuota has a new sandbox take a quota for as long as the test runs. It gives the user
// inside and how much that took.
func (w *world) takeQuota(t *testing.T, mode, quota string, most int) (user string, n int) {
	t.Helper()
	sandbox := w.create(t, func(r *api.CreateSandbox) {
		if w.isolation == "kubernetes" {
			r.Limits.CPUs = 0.2 // five fit on a node with two processors
		}
		if w.guestIsUser() {
			r.Limits.MemoryBytes = 4 << 30 // a guest without control groups counts the program once for each of its processes
		}
	})
	user = sandbox.Identities[len(sandbox.Identities)-1] // root, if there is one
	s, err := w.Guests.StartExec(within(t), sandbox.ID, api.ExecRequest{
		Args: []string{w.program(t, sandbox.ID), roleQuota, mode, quota, strconv.Itoa(most)}, User: user, Stdin: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, "close the attack's output", s.Close()) })
	var out bytes.Buffer
	for took(out.String()) < 0 {
		ev, err := s.Next()
		if err != nil {
			t.Fatalf("%v; the attack ended with %+v and said %q", err, s.Exec().Exit, &out)
		}
		if ev.Data != nil {
			out.Write(ev.Data.Stdout)
			out.Write(ev.Data.Stderr)
		}
	}
	return user, took(out.String())
}

// TestQuotasTogether has several sandboxes take all inotify instances that they get. As
// root none is at the expense of another.
func TestQuotasTogether(t *testing.T) { onSharedKernel(t, quotasTogether) }

func quotasTogether(t *testing.T, w *world) {
	const want = 30
	for i := range 5 {
		if _, n := w.takeQuota(t, modeTake, "inotify", 4096); n < want && os.Getuid() == 0 {
			t.Errorf("sandbox %d gets %d instances after the others took theirs", i, n)
		}
	}
	if n := quotaLeft(t, "inotify", want, os.Getuid()); n < want {
		t.Errorf("five sandboxes left %d instances to the host's user", n)
	}
}

// TestQuotasControl takes the same in a user namespace that nobody bounds: nothing is left
// to the user who created it. As root that is an ordinary user, so that the host's own
// processes are spared. As an ordinary user it is that user: kernels of sandboxes that
// start meanwhile wait for signals that never come.
func TestQuotasControl(t *testing.T) {
	tier.AnyUser(t)
	for i, a := range quotaAttacks {
		if a.users {
			continue // there is one user in the control's namespace
		}
		t.Run(a.name, func(t *testing.T) {
			uid := os.Getuid()
			if uid == 0 {
				t.Parallel()
				uid = 54321 + i // nobody's
			}
			c := hostQuota(t, uid, modeFresh, a.quota, 1<<20, a.mode)
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				in.Close()
				_ = c.Wait() // it ends by a read of its input
			}()
			var n int
			if _, err := fmt.Fscanf(out, "took %d\n", &n); err != nil {
				rest, _ := io.ReadAll(out)
				t.Skipf("user %d cannot make a user namespace here: %v %s", uid, err, rest)
			}
			if got := quotaLeft(t, a.quota, a.want, uid); got >= a.want {
				t.Errorf("the attack took %d and its user still got %d of %d: it proves nothing", n, got, a.want)
			}
		})
	}
}

// quotaLeft returns how much a user of the host gets of a quota.
func quotaLeft(t *testing.T, quota string, want, uid int) int {
	t.Helper()
	out, err := hostQuota(t, uid, modeLeft, quota, want).CombinedOutput()
	if err != nil || took(string(out)) < 0 {
		t.Fatalf("the host's own program: %v %s", err, out)
	}
	return took(string(out))
}

// hostQuota is this program outside of sandboxes, as a user of the host.
func hostQuota(t *testing.T, uid int, mode, quota string, most int, more ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/proc/self/exe", slices.Concat([]string{roleQuota, mode, quota, strconv.Itoa(most)}, more)...)
	dir, err := os.MkdirTemp("", "quota")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c.Env = []string{"TMPDIR=" + dir}
	if uid != os.Getuid() {
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	return c
}
