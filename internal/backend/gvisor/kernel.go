package gvisor

import (
	"encoding/json"
	"path"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/guest/birth"
)

// guestUID is the guest's id on its own kernel. No process that it starts has this id.
const guestUID = 65533

// guestCaps are the guest's capabilities there: it changes ids, signals every process, prepares
// directories and the host name, drops capabilities of what it starts and changes its root. See
// birth.ArgStdio.
var guestCaps = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT"}

// kernel starts gVisor. See launch.Kernel.
type kernel struct {
	tools string
	// copies is true if all memory is copied when it is restored.
	copies bool
}

func (k *kernel) Tools() string { return k.tools }

// Plan returns how a keeper starts it: runsc creates the processes, and the keeper makes the calls
// that other commands of runsc would make. That saves two starts of a program of 80 MB.
func (k *kernel) Plan(q launch.PlanRequest) (keeper.Plan, error) {
	const bundle = keeper.StateDir + "/bundle"
	config, err := json.Marshal(oci(q))
	if err != nil {
		return keeper.Plan{}, err
	}
	id := string(q.ID)
	p := keeper.Plan{
		ID: id, Kernel: "runsc-sandbox", Control: keeper.StateDir + "/runsc-" + id + ".sock",
		Files:  []keeper.File{{Path: bundle + "/config.json", Data: string(config)}},
		Create: append(append([]string{keeper.ToolsDir + "/" + RunscName}, flags(q.Limits)...), "create", "--bundle="+bundle, id),
	}
	arg, err := json.Marshal(network(q.Restored))
	if err != nil {
		return p, err
	}
	p.Start = append(p.Start, keeper.Call{Method: "containerManager.SetNetworkArgs", Arg: arg, File: natRules()})
	if !q.Restored {
		arg, err = json.Marshal(id)
		p.Start = append(p.Start, keeper.Call{Method: "containerManager.StartRoot", Arg: arg})
	}
	return p, err
}

// Shared reports whether restored memory refers to the image instead of being copied.
func (k *kernel) Shared() bool { return !k.copies }

// Restore is the call that reads an image.
func (k *kernel) Restore(names []string) keeper.Call {
	return method("Restore", map[string]any{"HavePagesFile": true, "HaveDeviceFile": false, "Background": true, "Bases": names})
}

// Bases is the call that returns what the last image refers to.
func (k *kernel) Bases() keeper.Call { return method("SavedBases", nil) }

// CopyBases is the call that makes the next image refer to none of the names, or to none.
func (k *kernel) CopyBases(names []string) keeper.Call { return method("CopyBases", names) }

// Freeze is the call that makes the next image refer to the memory of the kernel.
func (k *kernel) Freeze(name string) keeper.Call { return method("Freeze", name) }

// Thaw is the call that ends the use of memory that was frozen.
func (k *kernel) Thaw(name string) keeper.Call { return method("Thaw", name) }

// BaseUse is the call that returns how much of each base is in use.
func (k *kernel) BaseUse() keeper.Call { return method("BaseUse", nil) }

// method is a call of the kernel.
func method(name string, arg any) keeper.Call {
	b, err := json.Marshal(arg)
	if err != nil {
		panic(err) // of strings
	}
	return keeper.Call{Method: "containerManager." + name, Arg: b}
}

// flags are those of every runsc command.
func flags(l api.Limits) []string {
	return []string{
		"--root=" + keeper.StateDir,
		"--platform=systrap",
		"--network=none",
		"--ignore-cgroups",       // the jail's are around it
		"--host-settings=ignore", // it must not change the host
		"--file-access=exclusive",
		"--overlay2=root:memory,size=" + strconv.FormatInt(l.DiskBytes, 10),
		"--in-sandbox-cgroup=v2", // with which the guest limits processes
		"--watchdog-action=log",
		"--allow-flag-override=false",
	}
}

// Files are the files of an image.
func (k *kernel) Files() []string { return []string{"checkpoint.img", "pages_meta.img", "pages.img"} }

// Save is the call that writes them. The kernel resumes after it; a caller that wants to end
// it does so after the snapshot was recorded.
func (k *kernel) Save() keeper.Call {
	return method("Checkpoint", map[string]any{
		"metadata": map[string]string{"compression": "none"}, "have_pages_file": true, "Resume": true,
	})
}

// Hold are the calls that stop a kernel and resume it. gVisor counts pauses: one made before a
// save outlasts the pause of the save.
func (k *kernel) Hold() keeper.Hold {
	return keeper.Hold{Stop: keeper.Call{Method: "containerManager.Pause"}, Resume: keeper.Call{Method: "containerManager.Resume"}}
}

// network describes the loopback interface, the only one, and announces the file with natRules.
// Every IPv4 address is a local one, so that connections to it reach the rules. A restored
// kernel gets it again: an image contains no network.
func network(restore bool) any {
	type address struct {
		Address   string
		PrefixLen int
	}
	type prefix struct {
		IP   string
		Mask []byte
	}
	type route struct {
		Destination prefix
	}
	ones := make([]byte, 16)
	for i := range ones {
		ones[i] = 0xff
	}
	return map[string]any{
		"LoopbackLinks": []any{map[string]any{
			"Name":      "lo",
			"Addresses": []address{{"127.0.0.1", 8}, {birth.OwnAddress, 0}, {"::1", 128}},
			// All addresses but multicast and broadcast ones.
			"Routes": []route{{prefix{"0.0.0.0", []byte{0x80, 0, 0, 0}}}, {prefix{"128.0.0.0", []byte{0xc0, 0, 0, 0}}},
				{prefix{"192.0.0.0", []byte{0xe0, 0, 0, 0}}}, {prefix{"::1", ones}}},
		}},
		"NATBlob":   true,
		"IsRestore": restore,
	}
}

// oci is the configuration of the sandbox by the OCI runtime specification, as far as runsc
// needs it.
func oci(q launch.PlanRequest) any {
	type m = map[string]any
	mounts := []m{
		{"destination": "/proc", "type": "proc", "source": "proc", "options": []string{"nosuid", "nodev", "noexec"}},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=0755"}},
		{"destination": "/dev/pts", "type": "devpts", "source": "devpts"},
		{"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
			"options": []string{"nosuid", "nodev", "noexec", "mode=1777", "size=" + strconv.FormatInt(q.Limits.DiskBytes, 10)}},
	}
	mounts = append(mounts, m{"destination": birth.Groups, "type": "cgroup", "source": "cgroup"})
	if q.Durable {
		mounts = append(mounts, m{"destination": "/workspace", "type": "bind", "source": keeper.WorkspaceDir, "options": []string{"rbind", "rw", "nosuid", "nodev"}})
		// The host's mounts protect the contents. These are mount points of this kernel too,
		// which removes and renames by descriptors, without regard to those of the host.
		for _, a := range q.Access {
			mode := "rw"
			if a.ReadOnly {
				mode = "ro"
			}
			if a.Path != "." {
				mounts = append(mounts, m{"destination": path.Join("/workspace", a.Path), "type": "bind", "source": path.Join(keeper.WorkspaceDir, a.Path), "options": []string{"rbind", mode, "nosuid", "nodev"}})
			}
		}
	}
	namespaces := []m{}
	for _, n := range []string{"pid", "mount", "network", "ipc", "uts"} {
		namespaces = append(namespaces, m{"type": n})
	}
	return m{
		"ociVersion": "1.1.0",
		"hostname":   q.Hostname,
		"root":       m{"path": keeper.RootDir, "readonly": false},
		"process": m{
			"args": []string{path.Join(keeper.GuestTarget, GuestName), birth.ArgStdio},
			"cwd":  "/", "env": []string{"GOMAXPROCS=2"}, "noNewPrivileges": true,
			"user":         m{"uid": guestUID, "gid": guestUID},
			"capabilities": m{"bounding": []string{}, "effective": guestCaps, "permitted": guestCaps, "inheritable": guestCaps, "ambient": guestCaps},
			"rlimits":      []m{{"type": "RLIMIT_NOFILE", "soft": 16 << 10, "hard": 1 << 20}, {"type": "RLIMIT_CORE", "soft": 0, "hard": 0}},
		},
		"mounts": mounts,
		"linux":  m{"namespaces": namespaces, "resources": resources(q.Limits)},
	}
}

// resources are the limits that programs see. They are enforced elsewhere: see
// launch.GroupLimits.
func resources(l api.Limits) any {
	type m = map[string]any
	r := m{}
	if l.MemoryBytes > 0 {
		r["memory"] = m{"limit": l.MemoryBytes}
	}
	if l.CPUs > 0 {
		const period = 100_000 // microseconds
		r["cpu"] = m{"quota": max(int64(l.CPUs*period), 1), "period": period}
	}
	return r
}
