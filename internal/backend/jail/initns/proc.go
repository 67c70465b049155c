package initns

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// hidden are the files of /proc that act on the whole host, or reveal about it or its other
// users what no program needs: secrets of the administrator (cmdline), current activity of
// others (interrupts, locks, vmstat), the memory layout, devices and modules. hiddenDirs are
// directories of that kind. Files that programs use to size themselves stay, with the limits of
// the sandbox: cpuinfo, meminfo, stat, loadavg, uptime.
var (
	hidden = []string{"allocinfo", "bootconfig", "buddyinfo", "cgroups", "cmdline", "config.gz", "consoles", "crypto", "devices",
		"diskstats", "dma", "execdomains", "fb", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg",
		"kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "locks", "mdstat", "misc", "modules", "mtrr", "pagetypeinfo",
		"partitions", "sched_debug", "schedstat", "slabinfo", "softirqs", "swaps", "sysrq-trigger", "timer_list", "timer_stats",
		"vmallocinfo", "vmstat", "zoneinfo",
		// Counters of open objects of the whole host.
		"sys/fs/aio-nr", "sys/fs/dentry-state", "sys/fs/file-nr", "sys/fs/inode-nr", "sys/fs/inode-state", "sys/kernel/pty/nr"}
	hiddenDirs = []string{"acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "pressure", "scsi", "sys/fs/quota"}
)

// Hidden are the paths of /proc that no sandbox sees.
func Hidden() (all []string) {
	for _, name := range slices.Concat(hidden, hiddenDirs) {
		all = append(all, "/proc/"+name)
	}
	return all
}

// covers are mounted over entries of /proc: an empty file, an empty directory, a boot id of
// this sandbox, and files with its limits.
const (
	covers     = stage + "/covers"
	coverFile  = covers + "/file"
	coverDir   = covers + "/dir"
	coverBoot  = covers + "/boot_id"
	bootIDFile = "sys/kernel/random/boot_id"
)

// mountProc mounts a /proc that shows a user only its own processes.
func mountProc(s *Spec, root string) error {
	params := []param{{"source", "proc"}}
	if s.Hidepid {
		// The guest's group, which nobody else is in, sees every process.
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
		// The sandbox has a /proc of its own kernel. This one is for the programs of that
		// kernel: they mount one themselves, which the kernel of the host allows only
		// while they see an unmasked one.
		return nil
	}
	limits := s.Limits.procFiles(func(name string) string {
		b, _ := os.ReadFile(proc + "/" + name)
		return string(b)
	})
	if err := makeCovers(limits); err != nil {
		return at("make covers for /proc", err)
	}
	n, err := cloneMount(proc+"/sys", unix.MOUNT_ATTR_RDONLY)
	if err == nil {
		err = attach(n, proc+"/sys")
	}
	if err != nil {
		return at("protect /proc/sys", err)
	}
	for _, name := range hidden {
		if _, shown := limits[name]; shown {
			continue
		}
		if err := cover(coverFile, proc+"/"+name); err != nil {
			return at("hide /proc/"+name, err)
		}
	}
	for _, name := range hiddenDirs {
		if err := cover(coverDir, proc+"/"+name); err != nil {
			return at("hide /proc/"+name, err)
		}
	}
	for name := range limits {
		if err := cover(covers+"/"+name, proc+"/"+name); err != nil {
			return at("show the limits in /proc/"+name, err)
		}
	}
	return at("set the boot id", cover(coverBoot, proc+"/"+bootIDFile))
}

// makeCovers makes the covers and a read-only mount over their directory: bind mounts of it
// are read-only too.
func makeCovers(limits map[string]string) error {
	if err := unix.Mkdir(covers, 0o755); err != nil {
		return err
	}
	if err := unix.Mkdir(coverDir, 0o555); err != nil {
		return err
	}
	files := map[string]string{coverFile: "", coverBoot: newBootID() + "\n"}
	for name, data := range limits {
		files[covers+"/"+name] = data
	}
	for path, data := range files {
		if err := os.WriteFile(path, []byte(data), 0o444); err != nil {
			return err
		}
	}
	m, err := cloneMount(covers, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	return attach(m, covers)
}

// cover mounts a cover over an entry of /proc, if this kernel has the entry.
func cover(source, target string) error {
	err := unix.Mount(source, target, "", unix.MS_BIND, "")
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// newBootID makes a random UUID in the kernel's format.
func newBootID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
