package launch

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/oci/settings"
)

// OutputBuffer is the maximum that a guest keeps of one command's output, in bytes.
const OutputBuffer = 1 << 20

// NoRoot is why a sandbox without a range of ids has no root.
const NoRoot = "an ordinary user's daemon can map a single id into a sandbox, so the only identity is user"

// The users of every sandbox.
var (
	user = birth.Identity{Name: "user", UID: ids.UserUID, GID: ids.UserUID, Home: "/home/user"}
	root = birth.Identity{Name: "root", UID: ids.RootUID, GID: ids.RootUID, Home: "/root", Caps: rootCaps}
)

// Identities are the users of a sandbox with several ids: that of its image, which may be nil,
// then those of every sandbox.
func Identities(image *settings.Settings) []birth.Identity {
	all := []birth.Identity{user, root}
	if image == nil {
		return all
	}
	u := image.User
	first := birth.Identity{Name: u.Name, UID: u.UID, GID: u.GID, Groups: u.Groups, Home: u.Home}
	if u.UID == ids.RootUID {
		first.Caps = rootCaps
	}
	all = slices.DeleteFunc(all, func(i birth.Identity) bool { return i.Name == first.Name })
	return append([]birth.Identity{first}, all...)
}

// Default is who runs commands of requests that name no user, and where.
func Default(spec sandbox.Spec) birth.Default {
	d := birth.Default{User: spec.User, Dir: spec.Dir}
	if u := spec.UserRecord; u != nil {
		d.Own = &birth.Identity{Name: u.Name, UID: u.UID, GID: u.GID, Groups: u.Groups, Home: u.Home}
	}
	return d
}

// GuestConfig is the configuration of a guest.
func (l *Launcher) GuestConfig(spec sandbox.Spec, trees []*Tree) *birth.Config {
	cfg := &birth.Config{
		Sandbox: string(spec.ID), Hostname: spec.Hostname, Workspace: "/workspace", Path: searchPath(trees), Env: Environment(trees, spec.Env),
		OutputBuffer: OutputBuffer, PID1: true, Capture: true, Default: Default(spec),
	}
	image := imageOf(trees)
	if spec.Workspace != nil {
		image = nil // commands run as the owner of its files, and in it
	}
	if image != nil {
		cfg.Dir = image.Dir
	}
	if l.cfg.Ranges || l.cfg.Kernel != nil {
		cfg.Switch = true
		cfg.Identities = Identities(image)
	} else {
		cfg.Identities = []birth.Identity{user}
		cfg.WhyNot = map[string]string{"root": NoRoot}
	}
	// Below the limit of the control group, which counts the guest too.
	cfg.Processes = spec.Limits.Processes
	if l.cfg.Kernel != nil {
		cfg.OwnKernel, cfg.Own, cfg.Files = true, OwnDirs(), OwnFiles(spec)
		cfg.Memory, cfg.CPUs, cfg.View = spec.Limits.MemoryBytes, spec.Limits.CPUs, spec.Workspace != nil && spec.Workspace.View
		return cfg
	}
	if ok, _ := l.cfg.Cgroups.Has(cgroup.Memory); !ok {
		cfg.Memory = spec.Limits.MemoryBytes
	}
	return cfg
}

// GroupLimits are the limits of a sandbox's control group. They leave capacity for the guest:
// commands reach the resource limit of their own uid first.
func (l *Launcher) GroupLimits(limits api.Limits) cgroup.Limits {
	g := cgroup.Limits{MemoryBytes: limits.MemoryBytes, Processes: limits.Processes, CPUs: limits.CPUs}
	if l.cfg.Kernel != nil {
		if g.MemoryBytes > 0 {
			g.MemoryBytes += kernelMemory
		}
		if g.Processes > 0 {
			g.Processes = g.Processes*tasksPerProcess + kernelTasks
		}
		return g
	}
	if g.Processes > 0 {
		g.Processes += birth.Reserve
	}
	return g
}

// limits are what the programs of a sandbox on the host's kernel see. A share of the processors
// becomes as many of them, rounded up, one sandbox's after the other's.
func (l *Launcher) limits(limits api.Limits) *initns.Limits {
	v := &initns.Limits{MemoryBytes: limits.MemoryBytes, CPUs: limits.CPUs, Processes: limits.Processes,
		Unified: l.cfg.Cgroups.Version(cgroup.Memory) == cgroup.Unified}
	n, all := uint64(math.Ceil(limits.CPUs)), uint64(len(l.processors))
	if n == 0 || n >= all {
		return v
	}
	first := l.turn.Add(n) - n
	for i := range n {
		v.Processors = append(v.Processors, l.processors[(first+i)%all])
	}
	slices.Sort(v.Processors)
	return v
}

// OwnDirs are the directories of the sandbox's users.
func OwnDirs() []birth.Dir {
	own := func(path string, mode uint32, id int) birth.Dir {
		return birth.Dir{Path: path, Mode: mode, UID: id, GID: id}
	}
	return []birth.Dir{
		own("/", 0o755, ids.RootUID),
		own("/etc", 0o755, ids.RootUID),
		own("/home", 0o755, ids.RootUID),
		own("/home/user", 0o755, ids.UserUID),
		own("/workspace", 0o755, ids.UserUID),
		own("/root", 0o700, ids.RootUID),
		own("/run", 0o755, ids.RootUID),
		own("/tmp", 0o1777, ids.RootUID),
		own("/var", 0o755, ids.RootUID),
		own("/var/tmp", 0o1777, ids.RootUID),
	}
}

// NameFiles contain the host name and the name server.
func NameFiles(spec sandbox.Spec) []birth.File {
	return []birth.File{
		{Path: "/etc/hostname", Data: spec.Hostname + "\n"},
		{Path: "/etc/hosts", Data: "127.0.0.1\tlocalhost " + spec.Hostname + "\n::1\tlocalhost ip6-localhost\n"},
		{Path: "/etc/resolv.conf", Data: birth.ResolvConf},
	}
}

// OwnFiles identify a sandbox whose guest writes them itself.
func OwnFiles(spec sandbox.Spec) []birth.File {
	return append(append(RunFiles(spec), NameFiles(spec)...),
		birth.File{Path: "/etc/machine-id", Data: randomID() + "\n"}, birth.File{Path: birth.GenerationFile, Data: randomID() + "\n"})
}

// RunFiles tell programs which sandbox they are in.
func RunFiles(spec sandbox.Spec) []birth.File {
	return birth.RunFiles(string(spec.ID), TemplateID(spec))
}

// TemplateID is the name of the template in E2B's API.
func TemplateID(spec sandbox.Spec) string {
	if spec.Template == "" || spec.Template == api.HostTemplate {
		return "base"
	}
	return spec.Template
}

// randomID makes a new id, such as that of a machine.
func randomID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
