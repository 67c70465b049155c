package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/initns"
)

const (
	noRootReason = "an ordinary user's sandbox has one identity, user: the host maps a single id into it"
	noRootFix    = "Run the daemon as root to have root inside, on a uid range of its own."
	probeTimeout = 10 * time.Second
	probePrefix  = "probe-"

	// AppArmor of Ubuntu 23.10 and later: where this is 1, a program without a
	// profile that says otherwise gets no capability in its own user namespaces.
	apparmorKnob = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	apparmorFix  = "Set sysctl kernel.apparmor_restrict_unprivileged_userns to 0, or give this program an AppArmor profile with the userns permission (docs/security.md has one)."
)

// Probe finds what the backend can do here, by building a sandbox up to the point
// where its guest would begin. See sandbox.Backend.
func (b *Backend) Probe(ctx context.Context) api.BackendReport {
	b.mu.Lock()
	have := b.report
	b.mu.Unlock()
	if have != nil {
		return *have
	}
	start := api.Ability{Capability: api.CapStart, OK: true}
	if reason, fix := b.try(ctx); reason != "" {
		start = api.Ability{Capability: api.CapStart, Reason: reason, Fix: fix}
	}
	r := api.BackendReport{Backend: b.Name(), Abilities: []api.Ability{start}}
	follow := func(c api.Capability, reason string) {
		a := api.Ability{Capability: c, OK: start.OK, Reason: reason}
		if !start.OK {
			a.Reason, a.Fix = start.Reason, start.Fix
		}
		r.Abilities = append(r.Abilities, a)
	}
	follow(api.CapIsolated, "namespaces, an allow list of system calls, no capabilities, read-only layers"+b.moreWalls())
	if start.OK && b.cfg.Kernel == nil { // a kernel of the sandbox's own has tables of its own
		if reason, fix := readTables().low(); reason != "" {
			a := &r.Abilities[len(r.Abilities)-1]
			a.Reason, a.Fix = a.Reason+"; low limits of the host: "+reason, fix
		}
	}
	if b.root {
		follow(api.CapRootIdentity, "mapped to an unprivileged id of the host's")
	} else {
		r.Abilities = append(r.Abilities, api.Ability{Capability: api.CapRootIdentity, Reason: noRootReason, Fix: noRootFix})
	}
	follow(api.CapUserIdentity, "")
	for _, c := range []api.Capability{api.CapPause, api.CapLimitCPU, api.CapLimitCPUTime, api.CapLimitMemory, api.CapLimitProcs,
		api.CapLimitDisk, api.CapLimitDiskRate, api.CapLimitOutput} {
		a := b.limit(c)
		if a.OK && !start.OK {
			a.OK, a.Reason, a.Fix = false, start.Reason, start.Fix
		}
		r.Abilities = append(r.Abilities, a)
	}
	if tmpfsAttributes() {
		follow(api.CapPrivateFiles, "")
	} else {
		follow(api.CapPrivateFiles, noAttributes)
	}
	follow(api.CapNoNetwork, "")
	if b.cfg.Kernel != nil {
		follow(api.CapCheckpoint, "")
	} else {
		r.Abilities = append(r.Abilities, b.noCheckpoint())
	}
	if start.OK {
		r.Abilities = append(r.Abilities, b.workspaceAbility(ctx))
	} else {
		follow(api.CapWorkspace, "")
	}
	if ctx.Err() == nil { // a probe that was cut short says nothing
		b.mu.Lock()
		b.report = &r
		b.mu.Unlock()
	}
	return r
}

// moreWalls names those that not every kernel has.
func (b *Backend) moreWalls() string {
	clocks, landlock := ", clocks of its own", ", no Landlock in this kernel"
	if !b.clocks {
		clocks = ", the machine's clocks"
	}
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == 0 {
		landlock = fmt.Sprintf(", Landlock %d", version)
	}
	return clocks + landlock
}

// removeProbes removes what the probe of an earlier owner left when it died in
// the middle. Its directory has no sandbox's name, so that nobody else finds it.
func removeProbes(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), probePrefix) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// limit says how one limit is enforced, or why not.
func (b *Backend) limit(c api.Capability) api.Ability {
	a := api.Ability{Capability: c, OK: true}
	fix := delegationFix(os.Geteuid(), os.Getenv("XDG_RUNTIME_DIR"))
	by := func(ctl cgroup.Controller) {
		if ok, why := b.cgroups.Has(ctl); ok {
			a.Reason = b.cgroups.Version(ctl)
		} else {
			a.OK, a.Reason, a.Fix = false, why, fix
		}
	}
	switch c {
	case api.CapPause:
		by(cgroup.Freezer)
	case api.CapLimitCPU:
		by(cgroup.CPU)
	case api.CapLimitCPUTime:
		if ok, _ := b.cgroups.Has(cgroup.CPUAcct); ok {
			a.Reason = b.cgroups.Version(cgroup.CPUAcct) + " accounting, watched by the host"
		} else {
			a.Reason = "best effort: summed by the host over the process table"
		}
	case api.CapLimitMemory:
		if by(cgroup.Memory); !a.OK {
			a = api.Ability{Capability: c, OK: true, Reason: "best effort: watched by the guest (" + a.Reason + ")", Fix: fix}
		}
	case api.CapLimitProcs:
		if by(cgroup.Pids); !a.OK {
			a = api.Ability{Capability: c, OK: true, Reason: "a resource limit in the user namespace (" + a.Reason + ")", Fix: fix}
		}
	case api.CapLimitDisk:
		a.Reason = "the disk is a sized tmpfs; what is written counts as memory too"
	case api.CapLimitDiskRate:
		a = api.Ability{Capability: c, Reason: "the sandbox's disk is in memory: it writes to no block device, so there is no rate to bound"}
	case api.CapLimitOutput:
		a.Reason = "counted by the host"
	}
	return a
}

// try builds a sandbox without a guest and destroys it. It returns why that is
// not possible, or nothing.
func (b *Backend) try(ctx context.Context) (reason, fix string) { return b.tryWith(ctx, nil) }

// tryWith is try with something more in the sandbox. userns is its user namespace,
// or -1, and add takes a descriptor that goes to the stage.
func (b *Backend) tryWith(ctx context.Context, more func(is *initns.Spec, userns int, add func(int) int) error) (reason, fix string) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	dir, err := os.MkdirTemp(b.dir, probePrefix)
	if err != nil {
		return err.Error(), "Make the run directory writable."
	}
	defer os.RemoveAll(dir)
	for _, d := range []string{"proc", "dev", "etc"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return err.Error(), "Make the run directory writable."
		}
	}
	var le *lease
	if b.root {
		if le, err = b.ids.get(); err != nil {
			return "lease a uid range: " + err.Error(), "Make the lease directory writable."
		}
		defer b.ids.put(le)
	}
	g, err := b.cgroups.Create(string(api.NewSandboxID()), cgroup.Limits{})
	if err != nil {
		return err.Error(), "Make the control group hierarchy writable, or take it away from the daemon altogether."
	}
	defer g.Remove(removeWait)
	ch, err := b.spawn(g, le)
	if err != nil {
		return explainSpawn(err)
	}
	defer ch.conn.Close()
	defer ch.kill()
	stop := context.AfterFunc(ctx, func() { ch.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	is := b.baseSpec()
	is.Hostname, is.Probe, is.DiskBytes, is.DiskInodes = "probe", true, 1<<20, 1024
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	lower, userns := initns.Lower{FD: -1, Path: dir}, -1
	if le != nil {
		userns, err = unix.Open(fmt.Sprintf("/proc/%d/ns/user", ch.proc.Pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "open the user namespace of a child: " + err.Error(), "Give the daemon CAP_SYS_PTRACE."
		}
		defer unix.Close(userns)
		fd, err := mapped(dir, userns)
		if err != nil {
			return err.Error(), "Use a file system that supports id mapped mounts for the run directory, such as ext4, xfs, btrfs or tmpfs."
		}
		fds = append(fds, fd)
		lower = initns.Lower{FD: 0}
	}
	is.Roots = []initns.Lower{lower}
	add := func(fd int) int { fds = append(fds, fd); return len(fds) - 1 }
	if more == nil && b.cfg.Kernel != nil {
		return b.tryKernel(ch, is, dir, le, add, func() []int { return fds })
	}
	if more != nil {
		if err := more(is, userns, add); err != nil {
			return err.Error(), ""
		}
	}
	if err := ch.send(is, fds); err != nil {
		return "speak to the first process: " + err.Error(), ""
	}
	disk, err := ch.awaitBuilt()
	if err == nil {
		unix.Close(disk)
		return "", ""
	}
	var s *stageError
	if errors.As(err, &s) {
		return explainStage(s)
	}
	return "the first process of a sandbox did not answer: " + err.Error(), ""
}
