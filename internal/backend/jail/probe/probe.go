package probe

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/diagnosis"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/backend/jail/workdir"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/workspace"
)

// NoMemory is why a sandbox on the host's kernel is saved without its memory.
const NoMemory = "the memory of processes on the host's kernel cannot be saved"

// Config configures a Prober.
type Config struct {
	Name string // of the backend
	// Dir is the directory of the run directories.
	Dir      string
	Launcher *launch.Launcher
	Cgroups  *cgroup.Host
	IDs      *ids.Pool // nil if a sandbox has a single id
	// Spaces keeps durable workspaces; nil if there are none.
	Spaces *workspace.Store
}

// Prober reports the capabilities of a backend.
type Prober struct {
	cfg Config

	mu     sync.Mutex
	report *api.BackendReport
	// trials are the names of the control groups of trials.
	trials map[api.SandboxID]bool
}

// New returns a Prober. It tries nothing yet.
func New(cfg Config) *Prober { return &Prober{cfg: cfg, trials: map[api.SandboxID]bool{}} }

// Tried reports whether a control group is that of a trial of this Prober. Those of an earlier
// daemon that was killed are left over, as of any sandbox.
func (p *Prober) Tried(id api.SandboxID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trials[id]
}

// name makes the name of the control group of a trial.
func (p *Prober) name() api.SandboxID {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := api.NewSandboxID()
	p.trials[id] = true
	return id
}

// remove removes the control group of a trial. One that stays is left over.
func (p *Prober) remove(id api.SandboxID, g *cgroup.Group) {
	if err := g.Remove(removeWait); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.trials, id)
	}
}

// Report tries what the backend can do here. The first complete report is kept.
func (p *Prober) Report(ctx context.Context) api.BackendReport {
	p.mu.Lock()
	have := p.report
	p.mu.Unlock()
	if have != nil {
		return *have
	}
	start := api.Ability{Capability: api.CapStart}
	start.Reason, start.Fix = p.try(ctx, nil)
	start.OK = start.Reason == ""
	var all []api.Ability
	add := func(a api.Ability) { all = append(all, a) }
	yes := func(c api.Capability, reason string) { add(api.Ability{Capability: c, OK: true, Reason: reason}) }
	add(p.isolated())
	if p.cfg.IDs != nil {
		yes(api.CapRootIdentity, "root is mapped to an unprivileged id of the host")
	} else {
		add(api.Ability{Capability: api.CapRootIdentity, Reason: launch.NoRoot, Fix: "Run the daemon as root: each sandbox then gets a range of ids, and root inside."})
	}
	yes(api.CapUserIdentity, "")
	for _, c := range []api.Capability{api.CapPause, api.CapLimitCPU, api.CapLimitCPUTime, api.CapLimitMemory, api.CapLimitProcs,
		api.CapLimitDisk, api.CapLimitDiskRate, api.CapLimitOutput} {
		add(p.Limit(c))
	}
	yes(api.CapPrivateFiles, diagnosis.Attributes())
	yes(api.CapNoNetwork, "")
	add(p.checkpoint())
	if start.OK {
		add(p.workspaces(ctx))
	} else {
		yes(api.CapWorkspace, "")
	}
	if start.OK {
		add(p.egress(ctx))
	} else {
		add(api.Ability{Capability: api.CapEgress, OK: true, Grade: api.EgressByHost})
	}
	yes(api.CapPool, "")
	yes(api.CapAdopt, "")
	yes(api.CapPrograms, "")
	r := sandbox.Report(p.cfg.Name, start, all)
	if ctx.Err() == nil { // an interrupted probe is not conclusive
		p.mu.Lock()
		p.report = &r
		p.mu.Unlock()
	}
	return r
}

// isolated names the walls around a sandbox, and what weakens them.
func (p *Prober) isolated() api.Ability {
	clocks, landlock := ", its own clocks", ", no Landlock in this kernel"
	if !p.cfg.Launcher.Clocks() {
		clocks = ", the clocks of the host"
	}
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == 0 {
		landlock = fmt.Sprintf(", Landlock %d", version)
	}
	a := api.Ability{Capability: api.CapIsolated, OK: true, Reason: "namespaces, a system call allow list, no capabilities, read-only layers" + clocks + landlock}
	if p.cfg.Launcher.Kernel() == nil { // a kernel of the sandbox's own has its own tables
		if reason, fix := diagnosis.LowLimits(); reason != "" {
			a.Reason, a.Fix = a.Reason+"; the host has low limits: "+reason, fix
		}
	}
	return a
}

// checkpoint reports whether memory can be saved, and what can be saved instead.
func (p *Prober) checkpoint() api.Ability {
	if p.cfg.Launcher.Kernel() != nil {
		return api.Ability{Capability: api.CapCheckpoint, OK: true}
	}
	a := api.Ability{Capability: api.CapCheckpoint, Reason: NoMemory + "; files can be saved and forked",
		Fix: "use --isolation gvisor"}
	if ok, why := p.cfg.Cgroups.Has(cgroup.Freezer); !ok {
		a.Reason = NoMemory + ", and saving files needs a freezer: " + why
	}
	return a
}

// Limit returns how a limit is enforced, or why not.
func (p *Prober) Limit(c api.Capability) api.Ability {
	a := api.Ability{Capability: c, OK: true}
	groups, fix := p.cfg.Cgroups, diagnosis.Delegation()
	by := func(ctl cgroup.Controller) {
		if ok, why := groups.Has(ctl); ok {
			a.Reason = groups.Version(ctl)
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
		if ok, _ := groups.Has(cgroup.CPUAcct); ok {
			a.Reason = groups.Version(cgroup.CPUAcct) + " accounting, checked by the daemon"
		} else {
			a.Reason = "best effort: the daemon adds up the processes of the sandbox"
		}
	case api.CapLimitMemory:
		if by(cgroup.Memory); !a.OK {
			a = api.Ability{Capability: c, OK: true, Reason: "best effort: checked by the guest (" + a.Reason + ")", Fix: fix}
		}
	case api.CapLimitProcs:
		if by(cgroup.Pids); !a.OK {
			a = api.Ability{Capability: c, OK: true, Reason: "a resource limit in the user namespace (" + a.Reason + ")", Fix: fix}
		}
	case api.CapLimitDisk:
		a.Reason = "the disk is a tmpfs with a maximum size; what is written also counts as memory"
	case api.CapLimitDiskRate:
		a = api.Ability{Capability: c, Reason: "the sandbox's disk is in memory; there is no block device to limit"}
	case api.CapLimitOutput:
		a.Reason = "counted by the daemon"
	}
	return a
}

// egress tries whether outgoing connections can be captured here. A sandbox without capture
// has none.
func (p *Prober) egress(ctx context.Context) api.Ability {
	a := api.Ability{Capability: api.CapEgress, OK: true, Grade: api.EgressByHost, Reason: "captured by netfilter rules in the sandbox's own network"}
	if p.cfg.Launcher.Kernel() != nil {
		return a
	}
	reason, fix := p.try(ctx, func(is *initns.Spec, _ int, _ func(int) int) error {
		is.Capture = true
		return nil
	})
	if reason != "" {
		a.OK, a.Grade, a.Reason, a.Fix = false, api.EgressByNobody, reason, fix
	}
	return a
}

// workspaces tries whether a workspace can be mounted here.
func (p *Prober) workspaces(ctx context.Context) api.Ability {
	a := api.Ability{Capability: api.CapWorkspace}
	if p.cfg.Spaces == nil {
		a.Reason, a.Fix = "this daemon has no store of workspaces", "Configure the backend with a store of workspaces."
		return a
	}
	const fix = "Make the data directory writable."
	dir, remove, err := p.cfg.Spaces.Scratch()
	if err != nil {
		a.Reason, a.Fix = err.Error(), fix
		return a
	}
	defer remove()
	trial, err := workdir.NewTrial(dir)
	if err != nil {
		a.Reason, a.Fix = err.Error(), fix
		return a
	}
	a.Reason, a.Fix = p.try(ctx, func(is *initns.Spec, userns int, add func(int) int) (err error) {
		is.Workspace, err = trial.Stage(userns, add)
		return err
	})
	if a.OK = a.Reason == ""; a.OK {
		a.Reason = "an overlay on the disk of the data directory; its size is checked by the daemon, best effort"
	} else if a.Fix == "" {
		a.Fix = diagnosis.Workspace
	}
	return a
}
