package measure

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"hortus.dev/cmd/hortus-bench/program"
)

// runc runs a real OCI bundle over the host's programs.
var runc = rival{
	name: "runc",
	note: "the same namespaces; limits as root only; no filter of system calls in this bundle, nothing hidden in /usr, no bounded disk, no second command",
	prepare: func(ctx context.Context, dir string, argv []string) (call, error) {
		path, err := program.Find("runc")
		if err != nil {
			return call{}, err
		}
		bundle, state := filepath.Join(dir, "bundle"), filepath.Join(dir, "state")
		for _, d := range []string{bundle, filepath.Join(bundle, "rootfs"), state} {
			if err := os.Mkdir(d, 0o755); err != nil {
				return call{}, err
			}
		}
		r := hostRoot()
		if err := r.skeleton(filepath.Join(bundle, "rootfs")); err != nil {
			return call{}, err
		}
		config, err := json.Marshal(bundleConfig(r, argv, os.Geteuid(), os.Getegid()))
		if err != nil {
			return call{}, err
		}
		if err := os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o644); err != nil {
			return call{}, err
		}
		prefix := "hortus-bench-" + strconv.Itoa(os.Getpid()) + "-"
		var n atomic.Int64
		return call{
			command: func(ctx context.Context) *exec.Cmd {
				id := prefix + strconv.FormatInt(n.Add(1), 10)
				cmd := exec.CommandContext(ctx, path, "--root", state, "run", "--bundle", bundle, id)
				// Told to end it takes its container with it.
				cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
				return cmd
			},
			close: func(ctx context.Context) error {
				ids, err := program.Output(ctx, exec.CommandContext(ctx, path, "--root", state, "list", "--quiet"))
				errs := []error{err}
				for _, id := range strings.Fields(ids) {
					_, err := program.Output(ctx, exec.CommandContext(ctx, path, "--root", state, "delete", "--force", id))
					errs = append(errs, err)
				}
				return errors.Join(errs...)
			},
		}, nil
	},
}

// A range of ids that no sandbox leases, for the user namespace of a bundle.
const (
	bundleIDs  = 0x80000000
	bundleSize = 65536
)

type object = map[string]any

// bundleConfig is the config.json of a bundle, as the OCI runtime specification
// has it.
func bundleConfig(r root, argv []string, uid, gid int) object {
	mount := func(dest, kind, source string, options ...string) object {
		return object{"destination": dest, "type": kind, "source": source, "options": options}
	}
	mounts := []object{
		mount("/proc", "proc", "proc"),
		mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
		mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
		mount("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),
		mount("/tmp", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777", "size=1g"),
	}
	for _, t := range r.trees {
		mounts = append(mounts, mount(t, "bind", t, "rbind", "ro", "nosuid", "nodev"))
	}
	var namespaces []object
	for _, n := range []string{"user", "pid", "network", "mount", "ipc", "uts", "cgroup"} {
		namespaces = append(namespaces, object{"type": n})
	}
	ids := func(host int, size int) []object {
		return []object{{"containerID": 0, "hostID": host, "size": size}}
	}
	linux := object{
		"namespaces":  namespaces,
		"maskedPaths": []string{"/proc/kcore", "/proc/keys", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/scsi"},
	}
	user := object{"uid": 0, "gid": 0}
	if uid == 0 {
		user = object{"uid": 1000, "gid": 1000}
		linux["uidMappings"], linux["gidMappings"] = ids(bundleIDs, bundleSize), ids(bundleIDs, bundleSize)
		linux["resources"] = object{
			"memory": object{"limit": 512 << 20}, "pids": object{"limit": 256}, "cpu": object{"quota": 100_000, "period": 100_000},
			"devices": []object{{"allow": false, "access": "rwm"}},
		}
	} else {
		linux["uidMappings"], linux["gidMappings"] = ids(uid, 1), ids(gid, 1)
	}
	none := object{"bounding": []string{}, "effective": []string{}, "permitted": []string{}, "inheritable": []string{}, "ambient": []string{}}
	return object{
		"ociVersion": "1.0.2",
		"hostname":   "sandbox",
		"root":       object{"path": "rootfs", "readonly": true},
		"process": object{
			"user": user, "args": argv, "cwd": "/", "env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
			"capabilities": none, "noNewPrivileges": true,
		},
		"mounts": mounts,
		"linux":  linux,
	}
}
