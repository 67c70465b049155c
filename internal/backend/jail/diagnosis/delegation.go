package diagnosis

import (
	"fmt"
	"os"
	"path/filepath"
)

// Delegation returns how this process could get control groups of its own.
func Delegation() string { return delegation(os.Geteuid(), os.Getenv("XDG_RUNTIME_DIR")) }

// delegation is Delegation for a uid and the runtime directory of its login; "" is
// systemd's default.
func delegation(uid int, runtimeDir string) string {
	if uid == 0 {
		return "Make /sys/fs/cgroup writable. Inside a container, run it with --privileged or with a control group hierarchy of its own."
	}
	if runtimeDir == "" {
		runtimeDir = fmt.Sprintf("/run/user/%d", uid)
	}
	// The socket of the user's systemd manager.
	if _, err := os.Stat(filepath.Join(runtimeDir, "systemd/private")); err == nil {
		return "Start the daemon in a control group that systemd delegates to you: hortus daemon stop; systemd-run --user --scope -p Delegate=yes hortus run ... (docs/operations-cgroups.md). Or run it as root."
	}
	return "Delegate a control group with the memory, pids and cpu controllers to this user and start the daemon in it, or run the daemon as root."
}
