package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"hortus.dev/api"
	"hortus.dev/internal/backend/leased"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
)

// oldestAPI is the oldest version of the engine's API that has everything used here.
const oldestAPI = "1.41"

// Probe implements sandbox.Backend. It starts a sandbox without files and ends it. The first complete
// report is kept.
func (b *Backend) Probe(ctx context.Context) api.BackendReport {
	b.mu.Lock()
	have := b.report
	b.mu.Unlock()
	if have != nil {
		return *have
	}
	info, a := b.inspectEngine(ctx)
	r := b.describe(info, a)
	if a.OK {
		b.mu.Lock()
		b.groups2 = info.CgroupVersion == "2"
		b.mu.Unlock()
		if t := b.try(ctx); !t.OK {
			r = b.describe(info, t)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report = nil
	if ctx.Err() == nil { // an interrupted probe is not conclusive
		b.report = &r
	}
	return r
}

// inspectEngine asks the engine what it is.
func (b *Backend) inspectEngine(ctx context.Context) (system.Info, api.Ability) {
	a := api.Ability{Capability: api.CapStart}
	if a.Reason = b.unusable; a.Reason != "" {
		a.Fix = "start the daemon with HORTUS_DOCKER_HOST=unix:///run/docker.sock, tcp://HOST:PORT or ssh://USER@HOST"
		return system.Info{}, a
	}
	got, err := b.engine.Info(ctx, client.InfoOptions{})
	socket := strings.TrimPrefix(b.at.text, "unix://")
	switch {
	case err != nil && b.at.far:
		var call *url.Error
		if errors.As(err, &call) { // whose address is not what the user wrote
			err = call.Err
		}
		a.Reason, a.Fix = fmt.Sprintf("no Docker engine answers at %s: %.*s", b.at.text, maxMessage, err), "look whether this works: docker -H "+b.at.text+" info"
	case errors.Is(err, fs.ErrPermission) || err != nil && strings.Contains(err.Error(), "permission denied"):
		a.Reason, a.Fix = "this user may not use the Docker engine at "+socket, "Run the daemon as a user of the group docker. Members of that group are root on this machine."
	case err != nil:
		a.Reason, a.Fix = "no Docker engine answers at "+socket, "install and start Docker (Debian: apt-get install docker.io && systemctl start docker), or name its socket: HORTUS_DOCKER_HOST=unix:///PATH"
	case got.Info.OSType != "linux":
		a.Reason = "the Docker engine runs containers of " + got.Info.OSType + ", not of Linux"
	case olderThan(b.engine.ClientVersion(), oldestAPI):
		a.Reason, a.Fix = fmt.Sprintf("the Docker engine %s is too old: its API has version %s", got.Info.ServerVersion, b.engine.ClientVersion()), "Install Docker 20.10 or later."
	case !slices.ContainsFunc(got.Info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=seccomp") }):
		a.Reason, a.Fix = "the Docker engine has no seccomp", "Use a kernel and an engine with seccomp."
	case b.runtime(got.Info) == "":
		a.Reason = fmt.Sprintf("the Docker engine has no runtime %q, only %s", b.cfg.Runtime, strings.Join(slices.Sorted(maps.Keys(got.Info.Runtimes)), ", "))
		a.Fix = "start the daemon with HORTUS_DOCKER_RUNTIME=runc, or add the runtime to the engine's daemon.json"
	case strings.Contains(b.runtime(got.Info), "runsc"):
		a.Reason = "the runtime " + b.runtime(got.Info) + " lets no sandbox pass its socket to the host"
		a.Fix = "start the daemon with HORTUS_DOCKER_RUNTIME=runc; for gVisor use --isolation gvisor, which needs no engine"
	default:
		a.OK = true
	}
	return got.Info, a
}

// unified reports whether the engine shows a container its control group of version 2.
func (b *Backend) unified() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.groups2
}

// olderThan compares versions of the API.
func olderThan(version, than string) bool {
	var a, b, c, d int
	if n, _ := fmt.Sscanf(version, "%d.%d", &a, &b); n != 2 {
		return true
	}
	fmt.Sscanf(than, "%d.%d", &c, &d)
	return a < c || a == c && b < d
}

// runtime is the runtime of sandboxes; empty if the engine does not have it.
func (b *Backend) runtime(info system.Info) string {
	if b.cfg.Runtime == "" {
		return info.DefaultRuntime
	}
	if _, ok := info.Runtimes[b.cfg.Runtime]; !ok {
		return ""
	}
	return b.cfg.Runtime
}

// try starts a guest in an empty image, and ends it.
func (b *Backend) try(ctx context.Context) api.Ability {
	a := api.Ability{Capability: api.CapStart}
	spec := sandbox.Spec{ID: api.NewSandboxID(), Hostname: "trial", Limits: api.DefaultLimits(), Layers: []layer.Digest{"trial"}}
	// No layer of the store: only the places of mounts, and the directories that images have.
	r := &root{Layers: &leased.Layers{}, name: repository + ":" + b.owner + "-trial", layers: spec.Layers, places: []string{"/etc", "/run", "/var", "/home"}}
	m, err := b.bootRoot(ctx, spec, r, nil, nil)
	if err == nil {
		_, err = m.Kill(context.WithoutCancel(ctx))
	}
	if _, rerr := b.engine.ImageRemove(context.WithoutCancel(ctx), r.name, client.ImageRemoveOptions{PruneChildren: true}); rerr != nil && err == nil {
		err = engineError("remove the image of a trial", rerr)
	}
	b.mu.Lock()
	delete(b.loaded, r.name)
	b.mu.Unlock()
	if err != nil {
		a.Reason, a.Fix = err.Error(), api.HintOf(err)
		return a
	}
	a.OK = true
	return a
}

// describe makes the report. start is how the start of a sandbox went.
func (b *Backend) describe(info system.Info, start api.Ability) api.BackendReport {
	limit := func(c api.Capability, ok bool, what string) api.Ability {
		if ok {
			return api.Ability{Capability: c, OK: true, Reason: "control groups of the engine"}
		}
		return api.Ability{Capability: c, Reason: "the Docker engine cannot limit " + what + " on this machine", Fix: "Look at the warnings of: docker info"}
	}
	at := ""
	if b.at.far {
		at = " at " + b.at.text
	}
	walls := fmt.Sprintf("a container of Docker %s (%s)%s: namespaces, Docker's seccomp profile and a system call allow list, no capabilities", info.ServerVersion, b.runtime(info), at)
	if slices.Contains(info.SecurityOptions, "name=userns") {
		walls += ", a user namespace"
	} else {
		walls += "; without userns-remap of the engine, users inside have ids of this machine, and share the kernel's quotas of those"
	}
	memory := limit(api.CapLimitMemory, info.MemoryLimit, "memory")
	if memory.OK && info.CgroupVersion == "1" && (b.at.far || os.Geteuid() != 0) {
		memory.Reason = "best effort: control groups of version 1 count no buffers of sockets"
		memory.Fix = "Run the daemon as root, or the machine with control groups of version 2."
	}
	const otherwise = "Use --isolation container."
	checkpoint := api.Ability{Capability: api.CapCheckpoint, Reason: noMemory + "; files can be saved and forked", Fix: "Use --isolation gvisor."}
	if b.at.far {
		checkpoint.Reason = noSaveFar
	}
	all := []api.Ability{
		{Capability: api.CapIsolated, OK: true, Reason: walls},
		{Capability: api.CapRootIdentity, OK: true},
		{Capability: api.CapUserIdentity, OK: true},
		{Capability: api.CapPause, OK: true, Reason: "by the engine"},
		limit(api.CapLimitCPU, info.CPUCfsQuota, "processors"),
		{Capability: api.CapLimitCPUTime, OK: true, Reason: "accounting of the engine, checked by the daemon"},
		memory,
		limit(api.CapLimitProcs, info.PidsLimit, "processes"),
		{Capability: api.CapLimitDisk, Reason: "files are on the engine's disk, on which its storage driver " + info.Driver + " has no limit for each container", Fix: otherwise},
		{Capability: api.CapLimitDiskRate, Reason: "the backend does not know the block device of the engine's disk"},
		{Capability: api.CapLimitOutput, OK: true, Reason: "counted by the daemon"},
		{Capability: api.CapPrivateFiles, OK: true},
		{Capability: api.CapNoNetwork, OK: true},
		checkpoint,
		{Capability: api.CapWorkspace, OK: true, Reason: "copied into the container at the start, and back when it is paused and at the end"},
		{Capability: api.CapEgress, OK: true, Grade: api.EgressByHost, Reason: "captured by netfilter rules in the sandbox's own network"},
		{Capability: api.CapPool, OK: true},
		{Capability: api.CapAdopt, OK: true},
		{Capability: api.CapPrograms, OK: true},
	}
	return sandbox.Report(b.Name(), start, all)
}
