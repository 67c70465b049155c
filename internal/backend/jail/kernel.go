package jail

import (
	"crypto/rand"
	"encoding/hex"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
)

// Kernel is a kernel that a guest and its commands have to themselves, between them
// and the host's. It runs as ordinary processes inside the jail.
type Kernel interface {
	// Tools is a directory of the host's with the programs that the plan names, which
	// a keeper sees at keeper.ToolsDir. Its directory keeper.GuestDir has the guest's
	// executable.
	Tools() string
	// Plan says how a keeper brings the kernel and the guest to life.
	Plan(PlanRequest) (keeper.Plan, error)
	// Files are the names of the files that an image is made of, Save the call that
	// writes them, in that order, and Hold those with which the kernel stands still
	// for longer than a save takes.
	Files() []string
	Save() keeper.Call
	Hold() keeper.Hold
}

// PlanRequest is what a kernel is needed for.
type PlanRequest struct {
	ID       api.SandboxID
	Hostname string
	Limits   api.Limits
	// Durable says that the sandbox's /workspace is mounted apart, at
	// keeper.WorkspaceDir: what is written there lies on the host's disk.
	Durable bool
	// Image are the descriptors of the files to restore from, as indexes of the
	// packet; nil for a fresh start.
	Image []int
}

const (
	// kernelMemory is what a kernel and its helpers may need beyond the limit of
	// memory, which the guest holds its commands to; the host's limit, which is the
	// sum, ends the whole sandbox. In bytes.
	kernelMemory = 96 << 20
	// kernelTasks is how many of the host's tasks a kernel may need for itself, and
	// tasksPerProcess for each process of the guest's: an address space and the
	// threads that run in it.
	kernelTasks, tasksPerProcess = 512, 4
)

// ownDirs are the directories of the sandbox's users.
func ownDirs() []birth.Dir {
	own := func(path string, mode uint32, id int) birth.Dir {
		return birth.Dir{Path: path, Mode: mode, UID: id, GID: id}
	}
	return []birth.Dir{
		own("/", 0o755, rootUID),
		own("/etc", 0o755, rootUID),
		own("/home", 0o755, rootUID),
		own("/home/user", 0o755, userUID),
		own("/workspace", 0o755, userUID),
		own("/root", 0o700, rootUID),
		own("/run", 0o755, rootUID),
		own("/tmp", 0o1777, rootUID),
		own("/var", 0o755, rootUID),
		own("/var/tmp", 0o1777, rootUID),
	}
}

// ownFiles are the files that name a sandbox.
func ownFiles(spec sandbox.Spec) []birth.File {
	return append(runFiles(spec), []birth.File{
		{Path: "/etc/hostname", Data: spec.Hostname + "\n"},
		{Path: "/etc/hosts", Data: "127.0.0.1\tlocalhost " + spec.Hostname + "\n::1\tlocalhost ip6-localhost\n"},
		{Path: "/etc/machine-id", Data: machineID() + "\n"},
	}...)
}

// runFiles tell programs which sandbox they are in.
func runFiles(spec sandbox.Spec) []birth.File {
	return birth.RunFiles(string(spec.ID), templateID(spec))
}

// templateID is the template as E2B's clients call it.
func templateID(spec sandbox.Spec) string {
	if spec.Template == "" || spec.Template == api.HostTemplate {
		return "base"
	}
	return spec.Template
}

// machineID makes the id of a machine that never was before.
func machineID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
