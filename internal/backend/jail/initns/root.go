package initns

import (
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/upper"
)

// stage is the directory where the new root is built. Every host has it, everybody may traverse
// it, and mounts on it are visible in this mount namespace only.
const stage = "/tmp"

// buildRoot mounts everything that the sandbox sees, changes the root to it and unmounts the
// old one. It returns a descriptor of the sandbox's disk.
func buildRoot(s *Spec, fd func(int) int) (int, error) {
	// Mounts must not propagate to the host, nor from it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return -1, at("make mounts private", err)
	}
	if err := pin(s); err != nil {
		return -1, err
	}
	disk, err := mountDisk(s)
	if err != nil {
		return -1, err
	}
	below := &lowers{fd: fd}
	roots, err := below.place(s.Roots)
	if err != nil {
		return -1, at("attach the root layer", err)
	}
	files, err := openSaved(s, fd)
	if err != nil {
		return -1, err
	}
	defer files.close()
	if files == nil {
		err = fillUpper(s)
	} else {
		err = files.tree(upper.Root, stage+"/upper")
	}
	if err != nil {
		return -1, err
	}
	const root = stage + "/root"
	if err := mountRoot(roots, root, s.Keeper != nil); err != nil {
		return -1, at("mount the root overlay", err)
	}
	for _, t := range s.Mounts {
		if err := mountTree(t, below, root); err != nil {
			return -1, err
		}
	}
	if err := mountWorkspace(s, below, root, files); err != nil {
		return -1, err
	}
	if err := files.end(); err != nil {
		return -1, err
	}
	if err := mountRun(s, root); err != nil {
		return -1, err
	}
	if err := mountSys(s, root); err != nil {
		return -1, err
	}
	into := root
	if s.Keeper != nil {
		into = stage
		if err := keeperRoot(s, below); err != nil {
			return -1, err
		}
		// The keeper's root is the stage, which must contain nothing of the host.
		if err := below.detach(); err != nil {
			return -1, err
		}
	}
	if err := mountDev(s, fd, into); err != nil {
		return -1, err
	}
	// In a user namespace the kernel allows a new procfs only while an unmasked one is
	// visible, hence before the old root is unmounted.
	if err := mountProc(s, into); err != nil {
		return -1, err
	}
	if err := unix.Chdir(into); err != nil {
		return -1, at("change the root", err)
	}
	// The old root is mounted on top of the new one and then unmounted, which needs no
	// directory for it.
	if err := unix.PivotRoot(".", "."); err != nil {
		return -1, at("change the root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return -1, at("unmount the old root", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return -1, at("change the root", err)
	}
	return disk, nil
}

// pin opens every directory that is named by a path, and replaces the path by that of the
// descriptor: the mount on stage may cover the directory.
func pin(s *Spec) error {
	open := func(p *string) error {
		fd, err := unix.Open(*p, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return at("open a layer", err)
		}
		*p = "/proc/self/fd/" + strconv.Itoa(fd)
		return nil
	}
	for i := range s.Roots {
		if s.Roots[i].FD >= 0 {
			continue
		}
		if err := open(&s.Roots[i].Path); err != nil {
			return err
		}
	}
	if w := s.Workspace; w != nil {
		for i := range w.Lowers {
			if w.Lowers[i].FD < 0 {
				if err := open(&w.Lowers[i].Path); err != nil {
					return err
				}
			}
		}
		if w.Disk != nil && w.Disk.FD < 0 {
			if err := open(&w.Disk.Path); err != nil {
				return err
			}
		}
	}
	if k := s.Keeper; k != nil && k.Tools < 0 {
		if err := open(&k.ToolsPath); err != nil {
			return err
		}
	}
	for i := range s.Mounts {
		for j := range s.Mounts[i].Lowers {
			if s.Mounts[i].Lowers[j].FD >= 0 {
				continue
			}
			if err := open(&s.Mounts[i].Lowers[j].Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// mountDisk mounts the file system whose size limits what can be written.
func mountDisk(s *Spec) (int, error) {
	m, err := fsMount("tmpfs", unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID, []param{
		{"source", "hortus"}, {"size", strconv.FormatInt(s.DiskBytes, 10)},
		{"nr_inodes", strconv.FormatInt(s.DiskInodes, 10)}, {"mode", "0755"},
	})
	if err != nil {
		return -1, at("mount the disk", err)
	}
	if err := unix.MoveMount(m, "", unix.AT_FDCWD, stage, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return -1, at("mount the disk", err)
	}
	for _, d := range []string{"upper", "work", "lower", "root", "empty"} {
		if err := unix.Mkdir(stage+"/"+d, 0o755); err != nil {
			return -1, at("prepare the disk", err)
		}
	}
	return m, nil
}

// fillUpper makes the directories and files of the sandbox's users in the upper layer: those of
// a lower layer have another owner.
func fillUpper(s *Spec) error {
	const upper = stage + "/upper"
	for _, d := range s.Dirs {
		p := upper + path.Clean(d.Path)
		if err := unix.Mkdir(p, 0o755); err != nil && err != unix.EEXIST {
			return at("make "+d.Path, err)
		}
		if s.Switch {
			if err := unix.Lchown(p, d.UID, d.GID); err != nil {
				return at("make "+d.Path, err)
			}
		}
		if err := unix.Chmod(p, d.Mode); err != nil {
			return at("make "+d.Path, err)
		}
	}
	for _, f := range s.Files {
		fd, err := unix.Open(upper+path.Clean(f.Path), unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return at("write "+f.Path, err)
		}
		_, err = unix.Write(fd, []byte(f.Data))
		unix.Close(fd)
		if err != nil {
			return at("write "+f.Path, err)
		}
	}
	return nil
}
