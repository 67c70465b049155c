package initns

import (
	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/keeper"
)

// keeperRoot prepares what a keeper sees besides the sandbox's root: the programs of the
// kernel that it starts, and a directory for their state.
func keeperRoot(s *Spec, below *lowers) error {
	for _, d := range []string{keeper.ToolsDir, keeper.StateDir, "/proc", "/dev", "/tmp"} {
		if err := unix.Mkdir(stage+d, 0o755); err != nil {
			return at("make "+d, err)
		}
	}
	tools, err := below.place([]Lower{{FD: s.Keeper.Tools, Path: s.Keeper.ToolsPath}})
	if err != nil {
		return at("mount the kernel's programs", err)
	}
	m, err := readOnly(tools)
	if err == nil {
		err = attach(m, stage+keeper.ToolsDir)
	}
	if err != nil {
		return at("mount the kernel's programs", err)
	}
	m, err = cloneMount(stage+keeper.ToolsDir+"/"+keeper.GuestDir, unix.MOUNT_ATTR_RDONLY)
	if err == nil {
		err = attach(m, stage+keeper.RootDir+keeper.GuestTarget)
	}
	return at("mount the guest's program", err)
}
