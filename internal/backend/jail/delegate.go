package jail

import (
	"fmt"
	"os"
	"path/filepath"
)

// delegationFix says how this process could get control groups of its own. uid is
// its own; runtimeDir is where a login keeps what belongs to its user, or empty
// for systemd's place.
func delegationFix(uid int, runtimeDir string) string {
	if uid == 0 {
		return "Make /sys/fs/cgroup writable: in a container, run it with --privileged or with a control group hierarchy of its own."
	}
	if runtimeDir == "" {
		runtimeDir = fmt.Sprintf("/run/user/%d", uid)
	}
	// The socket by which systemd's own tools speak to a user's manager.
	if _, err := os.Stat(filepath.Join(runtimeDir, "systemd/private")); err == nil {
		return "Start the daemon in a control group that systemd hands to you: hortus daemon stop; systemd-run --user --scope -p Delegate=yes hortus run ... (docs/operations-cgroups.md); or run it as root."
	}
	return "Delegate a control group with the memory, pids and cpu controllers to this user and start the daemon in it, or run the daemon as root."
}
