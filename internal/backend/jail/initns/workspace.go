package initns

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/upper"
	"hortus.dev/internal/guest/birth"
)

// WorkspaceStep is the prefix of the steps that mount a workspace.
const WorkspaceStep = "mount the workspace"

// AccessStep is the prefix of the steps that make files of it read-only.
const AccessStep = "make files read-only or writable:"

// The directories of upper layers on the disk: the root's, and the one that contains that of a
// workspace.
const (
	UpperDir          = "upper"
	WorkspaceUpperDir = workspaceDir + "/" + ownDir

	workspaceDir, ownDir = "workspace", "own"
)

// mountWorkspace mounts the overlay of the workspace: read-only layers below an upper layer that
// is durable or on the sandbox's own disk.
func mountWorkspace(s *Spec, below *lowers, root string, files *savedFiles) error {
	w := s.Workspace
	if w == nil {
		return nil
	}
	const base = stage + "/" + workspaceDir
	if err := unix.Mkdir(base, 0o700); err != nil {
		return at(WorkspaceStep, err)
	}
	paths, err := below.place(w.Lowers)
	if err != nil {
		return at(WorkspaceStep+": attach a layer", err)
	}
	if s.Keeper != nil && w.Disk == nil {
		// The sandbox's own kernel keeps what is written to it.
		m, err := readOnly(paths)
		if err == nil {
			err = attach(m, root+path.Clean(w.Target))
		}
		return at(WorkspaceStep, err)
	}
	disk := base + "/" + ownDir
	if w.Disk != nil {
		var placed []string
		if placed, err = below.place([]Lower{*w.Disk}); err == nil {
			disk = placed[0]
		}
	} else {
		err = ownUpper(s, disk)
	}
	if err != nil {
		return at(WorkspaceStep+": attach its disk", err)
	}
	if files != nil && w.Disk == nil {
		if err := files.tree(upper.Workspace, disk+"/"+w.Upper); err != nil {
			return err
		}
	}
	m, err := fsMount("overlay", unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID, []param{
		// Where a layer is on another file system, as an image is, files still have the
		// device of the overlay, by which the host finds those without a name. With "on" the
		// kernel would mark new directories as opaque.
		{"source", "hortus"}, {"xino", "auto"}, {"lowerdir", strings.Join(paths, ":")},
		{"upperdir", disk + "/" + w.Upper}, {"workdir", disk + "/" + w.Work}, {"userxattr", ""},
	})
	if err != nil {
		return at(WorkspaceStep, err)
	}
	target := root + path.Clean(w.Target)
	if s.Keeper != nil {
		target = stage + keeper.WorkspaceDir
		if err := unix.Mkdir(target, 0o755); err != nil {
			return at(WorkspaceStep, err)
		}
		err = attach(m, target)
	} else {
		err = attachIn(m, root, w.Target)
	}
	if err != nil {
		return at(WorkspaceStep, err)
	}
	if err := restrict(target, w.Access); err != nil {
		return err
	}
	if w.View && s.Keeper == nil {
		if err := mountView(target, root); err != nil {
			return at(WorkspaceStep+": its read-only view", err)
		}
	}
	if w.Try {
		return at(WorkspaceStep+": try it", tryOverlay(target))
	}
	return nil
}

// restrict mounts files and directories of a workspace on themselves, read-only or writable. As
// mount points they can neither be removed nor renamed, and no hard link leads out of them. What is
// there was written by an earlier guest: no link is followed.
func restrict(target string, access []Access) error {
	if len(access) == 0 {
		return nil
	}
	top, err := unix.Open(target, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return at(AccessStep, err)
	}
	defer unix.Close(top)
	for _, a := range access {
		if err := restrictOne(top, a); err != nil {
			return at(AccessStep+" "+a.Path, err)
		}
	}
	return nil
}

func restrictOne(top int, a Access) error {
	attr := &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if a.ReadOnly {
		attr = &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	}
	if a.Path == "." {
		return unix.MountSetattr(top, "", unix.AT_EMPTY_PATH, attr)
	}
	at, err := unix.Openat2(top, a.Path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(at)
	m, err := unix.OpenTree(at, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(m)
	if err := unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return err
	}
	return unix.MoveMount(m, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// mountView mounts a workspace a second time, read-only.
func mountView(target, root string) error {
	m, err := cloneMount(target, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return err
	}
	defer unix.Close(m)
	dir, err := makeRun(root, birth.ViewDir)
	if noRun(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.MoveMount(m, "", dir, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// ownUpper makes the upper layer of a workspace that is not durable.
func ownUpper(s *Spec, dir string) error {
	w := s.Workspace
	for _, d := range []string{"", "/" + w.Upper, "/" + w.Work} {
		if err := unix.Mkdir(dir+d, 0o755); err != nil {
			return err
		}
	}
	if s.Switch {
		return unix.Lchown(dir+"/"+w.Upper, w.UID, w.GID)
	}
	return nil
}

// tryOverlay tries what fails on some file systems, or with some id mappings: copy a file up,
// remove a file, and hide a directory.
func tryOverlay(dir string) error {
	if err := unix.Chmod(dir+"/file", 0o600); err != nil {
		return err
	}
	if err := unix.Unlink(dir + "/file"); err != nil {
		return err
	}
	if err := unix.Unlink(dir + "/dir/file"); err != nil {
		return err
	}
	if err := unix.Rmdir(dir + "/dir"); err != nil {
		return err
	}
	if err := unix.Mkdir(dir+"/dir", 0o700); err != nil {
		return err
	}
	if err := unix.Access(dir+"/dir/file", unix.F_OK); err != unix.ENOENT {
		return unix.EIO
	}
	return nil
}
