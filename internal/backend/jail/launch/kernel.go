package launch

import (
	"fmt"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/sandbox"
)

// Kernel is a kernel of a sandbox's own: the guest and its commands run on it instead of on
// the host's. It runs as ordinary processes inside the jail.
type Kernel interface {
	// Tools is a directory of the host with the programs that the plan names, which a
	// keeper sees at keeper.ToolsDir. Its directory keeper.GuestDir contains the guest's
	// executable.
	Tools() string
	// Plan returns how a keeper starts the kernel and the guest.
	Plan(PlanRequest) (keeper.Plan, error)
	// Files are the names of the files of a memory image; the last has its pages. Save is
	// the call that writes them, in that order. Hold are the calls that stop the kernel
	// for longer than a save takes.
	Files() []string
	Save() keeper.Call
	Hold() keeper.Hold
	// Restore is the call that reads them. names are those of the pages of the image and
	// of its bases, whose files follow; with no names all memory is copied.
	Restore(names []string) keeper.Call
	// Shared is false if kernels copy all memory that they restore. Otherwise Bases is the
	// call that returns the files that the last saved image refers to; CopyBases that
	// which makes the next one refer to none of those named, or to none at all; Freeze
	// that which makes the next one refer to the kernel's own memory under a name, which
	// it does not write any more until Thaw.
	Shared() bool
	Bases() keeper.Call
	CopyBases(names []string) keeper.Call
	Freeze(name string) keeper.Call
	Thaw(name string) keeper.Call
	// BaseUse is the call that returns how much of each base the kernel refers to.
	BaseUse() keeper.Call
}

// PlanRequest describes the sandbox that a kernel is started for.
type PlanRequest struct {
	ID       api.SandboxID
	Hostname string
	Limits   api.Limits
	// Durable is true if /workspace is on the host's disk and mounted separately, at
	// keeper.WorkspaceDir, with the mounts of Access in it.
	Durable bool
	Access  []sandbox.PathAccess
	// Restored is true if the kernel will be asked to restore an image.
	Restored bool
}

const (
	// kernelMemory is the maximum memory of a kernel and its helpers beyond the memory
	// limit, in bytes. The guest enforces the limit on its commands; the host's limit,
	// which is the sum, ends the whole sandbox.
	kernelMemory = 96 << 20
	// kernelTasks is the maximum number of host tasks of a kernel itself, and
	// tasksPerProcess that for each process of the guest: an address space and the
	// threads that run in it.
	kernelTasks, tasksPerProcess = 512, 4
)

// KeeperPlan returns what the keeper starts, and opens what it needs for that.
func (l *Launcher) KeeperPlan(spec sandbox.Spec, restored bool, add func(int) int) (*keeper.Plan, error) {
	q := PlanRequest{ID: spec.ID, Hostname: spec.Hostname, Limits: spec.Limits, Durable: spec.Workspace != nil && spec.Workspace.Upper != ""}
	if spec.Workspace != nil {
		q.Access = spec.Workspace.Access
	}
	tools, dir := -1, l.cfg.Kernel.Tools()
	if l.cfg.Ranges { // otherwise the stage may mount the directory by its name
		fd, err := ids.CloneMount(dir)
		if err != nil {
			return nil, fmt.Errorf("the kernel's programs: %w", err)
		}
		tools = add(fd)
	}
	q.Restored = restored
	plan, err := l.cfg.Kernel.Plan(q)
	plan.Tools, plan.ToolsPath, plan.Restored = tools, dir, restored
	return &plan, err
}
