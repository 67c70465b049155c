package manager_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"hortus.dev/internal/sandbox/manager"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// kernelClock is the clock that nobody sets, as the daemon has it, and more.
func kernelClock(t *testing.T, more time.Duration) func() (time.Duration, string) {
	t.Helper()
	boot := strings.TrimSpace(string(must(os.ReadFile("/proc/sys/kernel/random/boot_id"))(t)))
	return func() (time.Duration, string) {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
			panic(err)
		}
		return time.Duration(now.Nano()) + more, boot
	}
}

// TestAdoptDeadline: the time that a sandbox has is the same under the next daemon,
// whatever the wall clock is set to: before its daemon is killed, while none is there,
// and afterwards. The rows are those that the daemon stored which is killed.
func TestAdoptDeadline(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	for _, c := range []struct {
		name, what string
		jump       time.Duration // what the next daemon's clock is off by
	}{
		{"as it was", "clock", 0},
		{"an hour forwards meanwhile", "clock", time.Hour},
		{"an hour backwards meanwhile", "clock", -time.Hour},
		{"an hour forwards before", "clock set", time.Hour},
		{"an hour forwards before, and back meanwhile", "clock set", 0},
		{"an hour forwards before, and two back meanwhile", "clock set", -time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			id := api.SandboxID(killDaemon(t, dir, c.what)["box"])
			clock := wallClock{off: c.jump}
			d := openDaemon(t, dir, func(cfg *manager.Config) { cfg.Now, cfg.Uptime = clock.now, kernelClock(t, 0) })
			if did := d.recover(t); did.Adopted != 1 {
				t.Fatalf("recovered %+v", did)
			}
			has := func(when string) {
				t.Helper()
				row := must(d.db.Sandbox(t.Context(), id))(t)
				if row.State != api.SandboxRunning {
					t.Fatalf("%s: it is %s (%s)", when, row.State, row.Reason)
				}
				for what, left := range map[string]time.Duration{"its row gives it": row.ExpiresAt.Sub(clock.now()), "it has": manager.Left(d.Manager, id)} {
					if left < 8*time.Minute || left > 10*time.Minute {
						t.Errorf("%s: %s %s of ten minutes", when, what, left)
					}
				}
			}
			has("adopted")
			for _, jump := range []time.Duration{time.Hour, -2 * time.Hour} {
				clock.jump(jump)
				manager.Look(d.Manager, id)
				has("and then " + jump.String())
			}
			if out := d.sh(t, id, "echo there"); out != "there\n" {
				t.Errorf("it says %q", out)
			}
		})
	}
	for name, c := range map[string]struct {
		more, jump time.Duration
	}{"it passes meanwhile": {more: time.Hour}, "it passes meanwhile, and the clock goes back": {time.Hour, -2 * time.Hour}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			id := api.SandboxID(killDaemon(t, dir, "clock")["box"])
			clock := wallClock{off: c.jump}
			d := openDaemon(t, dir, func(cfg *manager.Config) { cfg.Now, cfg.Uptime = clock.now, kernelClock(t, c.more) })
			d.recover(t)
			eventually(t, "it is ended", func() bool {
				s := must(d.db.Sandbox(t.Context(), id))(t)
				return s.State == api.SandboxEnded && s.Reason == "expired"
			})
		})
	}
}

// TestLeaveDeadline: the same where the daemon leaves in order, right after the clock
// was set.
func TestLeaveDeadline(t *testing.T) {
	dir := t.TempDir()
	var clock wallClock
	d := openDaemon(t, dir, func(cfg *manager.Config) { cfg.Now, cfg.Uptime = clock.now, kernelClock(t, 0) })
	sandbox := must(d.Creator.Create(t.Context(), keptSandbox()))(t)
	if _, err := d.Sandboxes.SetTTL(t.Context(), sandbox.ID, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	clock.jump(time.Hour)
	if n, err := d.Leave(t.Context()); err != nil || n != 1 {
		t.Fatalf("left %d, %v", n, err)
	}
	d.log.Close()
	if err := d.db.Close(); err != nil {
		t.Fatal(err)
	}
	next := openDaemon(t, dir, func(cfg *manager.Config) { cfg.Now, cfg.Uptime = clock.now, kernelClock(t, 0) })
	if did := next.recover(t); did.Adopted != 1 {
		t.Fatalf("recovered %+v", did)
	}
	if left := manager.Left(next.Manager, sandbox.ID); left < 8*time.Minute || left > 10*time.Minute {
		t.Errorf("it has %s of ten minutes", left)
	}
}
