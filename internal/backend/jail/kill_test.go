package jail_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

// nothingLeft wants no sandbox, directory or control group of this backend, no
// mount of Hortus's on the host and no process that came from it.
func nothingLeft(t testing.TB, e *env) {
	t.Helper()
	ids, err := e.Orphans(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(ids) > 0 {
		t.Errorf("left: %v", ids)
	}
	entries, err := os.ReadDir(e.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range entries {
		t.Errorf("left: %s", filepath.Join(e.dir, d.Name()))
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), e.dir) || strings.Contains(string(mounts), " hortus ") {
		t.Errorf("a mount is left:\n%s", mounts)
	}
}

// inside counts the host's processes whose command line holds a mark.
func inside(t testing.TB, mark string) int {
	t.Helper()
	n := 0
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if b, err := os.ReadFile(d); err == nil && strings.Contains(string(b), mark) && !strings.Contains(string(b), "test.run") {
			n++
		}
	}
	return n
}

func TestKillTrees(t *testing.T) {
	e := newEnv(t)
	m, _ := e.start(t)
	const mark = "86399.7531"
	// Own sessions, orphans, and deaf to what can be ignored.
	sh(t, m, "user", `for i in 1 2 3 4 5; do setsid sh -c 'trap "" TERM INT HUP QUIT; (sleep `+mark+` &) ; sleep `+mark+`' >/dev/null 2>&1 & done; sleep 0.2`)
	eventually(t, "ten sleepers", func() bool { return inside(t, "sleep\x00"+mark) == 10 })
	p := kill(t, m)
	if p.Killed < 11 {
		t.Errorf("%d processes were counted", p.Killed)
	}
	if n := inside(t, mark); n != 0 {
		t.Errorf("%d processes live on", n)
	}
	if m.Cause() != "" {
		t.Errorf("a kill has the cause %q", m.Cause())
	}
	// Again, and at the same time.
	again := kill(t, m)
	if again != p {
		t.Errorf("the second kill proves %+v, the first %+v", again, p)
	}
	if _, err := m.Link().Open(context.Background()); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("a stream to a dead sandbox: %v", err)
	}
	nothingLeft(t, e)
}

func TestGuestExit(t *testing.T) {
	e := newEnv(t)
	m, _ := e.start(t)
	try(m, request{Func: "exit"})
	select {
	case <-m.Done():
	case <-time.After(patience.Of(20 * time.Second)):
		t.Fatal("the end of the guest is not seen")
	}
	if !strings.Contains(m.Cause(), "exit status 7") {
		t.Errorf("the cause is %q", m.Cause())
	}
	kill(t, m)
	nothingLeft(t, e)
}

func TestManyAtOnce(t *testing.T) {
	e := newEnv(t)
	errs := make(chan error)
	const n = 8
	for range n {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience.Of(30*time.Second))
			defer cancel()
			for range 3 {
				m, err := e.Start(ctx, sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "x"})
				if err == nil {
					_, err = try(m, request{Args: []string{"/bin/true"}})
					if _, kerr := m.Kill(ctx); err == nil {
						err = kerr
					}
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	nothingLeft(t, e)
}

func TestStartCanceled(t *testing.T) {
	e := newEnv(t)
	for i := range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*300*time.Microsecond)
		m, err := e.Start(ctx, sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "x"})
		cancel()
		if err == nil {
			kill(t, m)
		} else if k := api.KindOf(err); k != api.KindTimeout {
			t.Errorf("%v (%s)", err, k)
		}
	}
	nothingLeft(t, e)
}

func TestOnlyLoopback(t *testing.T) {
	e := newEnv(t)
	m, _ := e.start(t)
	got := sh(t, m, "user", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; cat /proc/net/route | tail -n +2; grep -c . /proc/net/unix")
	if lines := strings.Split(got, "\n"); lines[0] != "lo" || len(lines) != 2 {
		t.Errorf("interfaces and routes: %q", got)
	}
	mounts := sh(t, m, "user", "cat /proc/self/mountinfo")
	for _, bad := range []string{e.dir, scratch, " / /sys", "- cgroup", "/old"} {
		if strings.Contains(mounts, bad) {
			t.Errorf("the mount table holds %q:\n%s", bad, mounts)
		}
	}
	fds := ask(t, m, request{Func: "fds"}).Out
	for line := range strings.Lines(fds) {
		_, target, _ := strings.Cut(strings.TrimSpace(line), " ")
		if target != "/dev/null" && target != "" && !strings.HasPrefix(target, "socket:") && !strings.HasPrefix(target, "anon_inode:") {
			t.Errorf("the guest holds %q", line)
		}
	}
}

func TestCapabilities(t *testing.T) {
	e := newEnv(t)
	m, _ := e.start(t)
	caps := func(text string) map[string]string {
		out := map[string]string{}
		for line := range strings.Lines(text) {
			if k, v, ok := strings.Cut(line, ":"); ok {
				out[k] = strings.TrimSpace(v)
			}
		}
		return out
	}
	const none = "0000000000000000"
	user := caps(sh(t, m, "user", "cat /proc/self/status"))
	for _, k := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		if user[k] != none {
			t.Errorf("user has %s %s", k, user[k])
		}
	}
	if user["NoNewPrivs"] != "1" || user["Seccomp"] != "2" {
		t.Errorf("user: no new privileges %s, seccomp %s", user["NoNewPrivs"], user["Seccomp"])
	}
	if user["CapBnd"] != none {
		t.Errorf("the bounding set is %s", user["CapBnd"])
	}
	if !isRoot() {
		rep := ask(t, m, request{User: "root", Args: []string{"/bin/true"}})
		if rep.Code == 0 {
			t.Error("root inside is there without root")
		}
		return
	}
	root := caps(sh(t, m, "root", "cat /proc/self/status"))
	const listed = "00000000000004db" // CHOWN DAC_OVERRIDE FOWNER FSETID SETGID SETUID NET_BIND_SERVICE
	if root["CapEff"] != listed || root["CapPrm"] != listed || root["CapBnd"] != none {
		t.Errorf("root has effective %s permitted %s bounding %s", root["CapEff"], root["CapPrm"], root["CapBnd"])
	}
	guest := caps(ask(t, m, request{Func: "status"}).Out)
	if guest["CapEff"] != "00000000000005fb" || !strings.HasPrefix(guest["Uid"], "65533\t") {
		t.Errorf("the guest is %s with %s", guest["Uid"], guest["CapEff"])
	}
}
