package initns

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// hidden are entries of /proc that act on the whole machine, or tell of it what a
// program has no use for: secrets of its administrator (cmdline), what its other
// users do at this moment (interrupts), how its memory lies. Each is covered by
// /dev/null. readOnly are those that must not be written.
var (
	hidden = []string{"cmdline", "interrupts", "softirqs", "diskstats", "partitions", "buddyinfo", "zoneinfo",
		"kcore", "keys", "key-users", "timer_list", "sched_debug", "sysrq-trigger",
		"kallsyms", "kmsg", "latency_stats", "timer_stats", "vmallocinfo", "slabinfo", "kpagecount", "kpageflags", "kpagecgroup"}
	hiddenDirs = []string{"acpi", "scsi", "driver", "dynamic_debug", "pressure"}
	readOnly   = []string{"sys", "irq", "bus", "fs"}
)

// mountProc mounts a process file system that shows a user's own processes.
func mountProc(s *Spec, root string) error {
	params := []param{{"source", "proc"}}
	if s.Hidepid {
		// The guest's group sees every process; nobody else is in it.
		params = append(params, param{"hidepid", "2"}, param{"gid", strconv.Itoa(s.GID)})
	}
	m, err := fsMount("proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, params)
	if err != nil {
		return at("mount /proc", err)
	}
	proc := root + "/proc"
	if err := attachIn(m, root, "/proc"); err != nil {
		return at("mount /proc", err)
	}
	if s.Keeper != nil {
		// The sandbox has a /proc of its own kernel's. This one is for the programs
		// of that kernel, which mount one for themselves: they may only while a whole
		// one is in sight.
		return nil
	}
	for _, name := range hidden {
		if unix.Access(proc+"/"+name, unix.F_OK) != nil {
			continue
		}
		n, err := again(root+"/dev/null", unix.MOUNT_ATTR_RDONLY)
		if err == nil {
			err = attach(n, proc+"/"+name)
		}
		if err != nil {
			return at("hide /proc/"+name, err)
		}
	}
	empty := "" // where the one empty directory is mounted already
	for _, name := range hiddenDirs {
		dir := proc + "/" + name
		if unix.Access(dir, unix.F_OK) != nil {
			continue
		}
		var n int
		if empty != "" {
			n, err = again(empty, 0)
		} else {
			n, err = fsMount("tmpfs", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC,
				[]param{{"source", "hortus"}, {"size", "4096"}, {"mode", "0555"}})
		}
		if err == nil {
			err = attach(n, dir)
		}
		if err != nil {
			return at("hide /proc/"+name, err)
		}
		empty = dir
	}
	for _, name := range readOnly {
		if unix.Access(proc+"/"+name, unix.F_OK) != nil {
			continue
		}
		n, err := again(proc+"/"+name, unix.MOUNT_ATTR_RDONLY)
		if err == nil {
			err = attach(n, proc+"/"+name)
		}
		if err != nil {
			return at("protect /proc/"+name, err)
		}
	}
	return nil
}

// Devices are the nodes of a sandbox's /dev.
var Devices = []struct {
	Name  string
	Minor uint32
	Major uint32
}{
	{"null", 3, 1}, {"zero", 5, 1}, {"full", 7, 1}, {"random", 8, 1}, {"urandom", 9, 1}, {"tty", 0, 5},
}

// DevLinks are the symbolic links of a sandbox's /dev.
var DevLinks = [][2]string{
	{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
}

// DevDirs are the mount points of a sandbox's /dev.
var DevDirs = []string{"pts", "shm"}

// mountDev mounts the few devices that programs need.
func mountDev(s *Spec, fd func(int) int, root string) error {
	dev := root + "/dev"
	if s.Dev >= 0 {
		if err := attachIn(fd(s.Dev), root, "/dev"); err != nil {
			return at("mount /dev", err)
		}
	} else if err := ownDev(root); err != nil {
		return err
	}
	pts, err := fsMount("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, []param{
		{"source", "devpts"}, {"newinstance", ""}, {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", strconv.Itoa(Terminals)},
	})
	if err != nil {
		return at("mount /dev/pts", err)
	}
	if err := attach(pts, dev+"/pts"); err != nil {
		return at("mount /dev/pts", err)
	}
	// Shared memory is part of the disk and of its bound.
	shm := stage + "/shm"
	if err := unix.Mkdir(shm, 0o755); err != nil {
		return at("mount /dev/shm", err)
	}
	if err := unix.Chmod(shm, 0o1777); err != nil {
		return at("mount /dev/shm", err)
	}
	m, err := again(shm, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return at("mount /dev/shm", err)
	}
	return at("mount /dev/shm", attach(m, dev+"/shm"))
}

// ownDev makes a /dev where the host could not prepare one: the nodes are the
// host's, bound, since a user namespace cannot make any.
func ownDev(root string) error {
	dev := root + "/dev"
	m, err := fsMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, []param{
		{"source", "hortus"}, {"size", "65536"}, {"nr_inodes", "64"}, {"mode", "0755"},
	})
	if err != nil {
		return at("mount /dev", err)
	}
	if err := moveIn(m, root, "/dev"); err != nil {
		return at("mount /dev", err)
	}
	for _, d := range Devices {
		fd, err := unix.Open(dev+"/"+d.Name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
		if err != nil {
			return at("make /dev/"+d.Name, err)
		}
		unix.Close(fd)
		n, err := again("/dev/"+d.Name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
		if err == nil {
			err = attach(n, dev+"/"+d.Name)
		}
		if err != nil {
			return at("make /dev/"+d.Name, err)
		}
	}
	for _, l := range DevLinks {
		if err := unix.Symlink(l[1], dev+"/"+l[0]); err != nil {
			return at("make /dev/"+l[0], err)
		}
	}
	for _, d := range DevDirs {
		if err := unix.Mkdir(dev+"/"+d, 0o755); err != nil {
			return at("make /dev/"+d, err)
		}
	}
	if err := unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return at("protect /dev", err)
	}
	return at("mount /dev", unix.Close(m))
}
