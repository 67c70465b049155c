package docker

import (
	"archive/tar"
	"context"
	"encoding/json"
	"io"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci/export"
)

// Labels of what the backend makes in an engine. Nothing without them is touched.
const (
	labelOwner   = "dev.hortus.owner"   // of a daemon's run directory
	labelSandbox = "dev.hortus.sandbox" // the ID
	labelSpec    = "dev.hortus.spec"    // what it was started with, without its environment
	// Of images. A container inherits the labels of its image, so they are others.
	labelImage  = "dev.hortus.image" // the same as labelOwner
	labelLayers = "dev.hortus.layers"
	labelGuest  = "dev.hortus.guest" // the digest of the guest in it; empty for none
)

// separators have a meaning in the options of an overlay.
const separators = `:,\`

// stageCaps are the capabilities of the stage: those of the guest, and NET_ADMIN to capture outgoing
// connections, which the stage drops before the guest serves.
var stageCaps = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID", "NET_BIND_SERVICE", "KILL", "SETPCAP", "NET_ADMIN"}

// name is the name of a sandbox's container.
func name(id api.SandboxID) string { return "hortus-" + string(id) }

// options describe the container of a sandbox.
func (b *Backend) options(spec sandbox.Spec, r *root, seen *initns.Limits) (client.ContainerCreateOptions, error) {
	kept := spec
	kept.Env = nil
	text, err := json.Marshal(kept)
	if err != nil {
		return client.ContainerCreateOptions{}, api.Errorf(api.KindInvalid, "sandbox %s: %w", spec.ID, err)
	}
	mode := initns.EngineStream
	var mounts []mount.Mount
	if !b.at.far {
		mode = initns.Engine
		if mounts, err = b.hostMounts(r.Trees); err != nil {
			return client.ContainerCreateOptions{}, err
		}
		mounts = append(mounts, overlay(initns.EngineDir+"/bin", b.guestDir(), b.emptyDir()), readOnly(filepath.Join(b.rundir(spec.ID), birthDir), path.Dir(initns.EngineSocket)))
		shown, err := view(b.rundir(spec.ID), seen)
		if err != nil {
			return client.ContainerCreateOptions{}, api.Errorf(api.KindInternal, "sandbox %s: %w", spec.ID, err)
		}
		mounts = append(mounts, shown...)
	}
	if spec.Workspace != nil {
		mounts = append(mounts, workspaceMount())
	}
	no := false
	l := spec.Limits
	var pids int64 = -1
	if l.Processes > 0 {
		pids = l.Processes + birth.Reserve
	}
	return client.ContainerCreateOptions{
		Name: name(spec.ID),
		Config: &container.Config{
			Image: r.name, Hostname: spec.Hostname, User: "0:0", WorkingDir: "/",
			Entrypoint: []string{initns.EngineDir + "/bin/" + initns.Argv0, mode}, OpenStdin: b.at.far,
			Env:    []string{"GOMAXPROCS=2"}, // as other guests: see launch.Spawn
			Labels: map[string]string{labelOwner: b.owner, labelSandbox: string(spec.ID), labelSpec: string(text)},
		},
		HostConfig: &container.HostConfig{
			NetworkMode: "none", IpcMode: "private", CgroupnsMode: "private",
			CapDrop: []string{"ALL"}, CapAdd: stageCaps, SecurityOpt: []string{"no-new-privileges:true"},
			LogConfig: container.LogConfig{Type: "none"}, RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
			Init: &no, Runtime: b.cfg.Runtime, ShmSize: shmSize(l), Mounts: mounts,
			MaskedPaths: initns.Hidden(),
			Resources: container.Resources{
				CgroupParent: b.cfg.CgroupParent,
				Memory:       l.MemoryBytes, MemorySwap: l.MemoryBytes, PidsLimit: &pids, NanoCPUs: int64(math.Ceil(l.CPUs * 1e9)),
			},
		},
	}, nil
}

// shmSize is the size of /dev/shm: above the limit of memory, which counts it.
func shmSize(l api.Limits) int64 {
	if l.MemoryBytes == 0 {
		return 1 << 30
	}
	return l.MemoryBytes + 1<<20
}

// hostMounts shows the directories of this machine that a template consists of besides its root.
func (b *Backend) hostMounts(trees []layer.Tree) (all []mount.Mount, err error) {
	for _, t := range trees {
		for _, m := range t.Mounts {
			for _, dir := range m.Lowers {
				if strings.ContainsAny(dir, separators) {
					return nil, api.Errorf(api.KindUnsupported, "the template shows %q, and the docker backend can show no directory with a colon, a comma or a backslash in its name", dir)
				}
			}
			lowers := m.Lowers
			if len(lowers) == 1 {
				lowers = append([]string{b.emptyDir()}, lowers...)
			}
			all = append(all, overlay(m.Target, lowers...))
		}
	}
	return all, nil
}

// overlay shows directories of this machine, the top one first and at least two: in an overlay that the
// engine mounts for this container, in a volume that is removed with it. It has no upper layer, so it is
// read-only. Its files have locks and watches of their own, which those of a bind mount would share with
// every sandbox.
func overlay(target string, lowers ...string) mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Target: target, VolumeOptions: &mount.VolumeOptions{NoCopy: true, DriverConfig: &mount.Driver{
		Name: "local", Options: map[string]string{"type": "overlay", "device": "overlay", "o": "ro,nosuid,nodev,lowerdir=" + strings.Join(lowers, ":")},
	}}}
}

// mountPoints is a layer of directories. The archive of a layer replaces what has another type.
func mountPoints(targets []string) export.Layer {
	return func(_ context.Context, w io.Writer) error {
		made := map[string]bool{}
		out := tar.NewWriter(w)
		for _, t := range slices.Sorted(slices.Values(targets)) {
			for _, dir := range parents(t) {
				if made[dir] {
					continue
				}
				made[dir] = true
				if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
					return err
				}
			}
		}
		return out.Close()
	}
}

// parents lists a path and those above it, the highest first, without the root and relative to it.
func parents(p string) (all []string) {
	for p = path.Clean(p); p != "/" && p != "."; p = path.Dir(p) {
		all = append(all, strings.TrimPrefix(p, "/"))
	}
	slices.Reverse(all)
	return all
}

// guestConfig is the configuration of a guest.
func guestConfig(spec sandbox.Spec, r *root) *birth.Config {
	return &birth.Config{
		Sandbox: string(spec.ID), Hostname: spec.Hostname, Workspace: workspaceDir, Path: r.Path(), Dir: r.Dir(), Env: r.Env(spec.Env),
		OutputBuffer: launch.OutputBuffer, PID1: true, Capture: true, Switch: true, Waits: true, Default: launch.Default(spec),
		Identities: launch.Identities(r.Settings),
	}
}
