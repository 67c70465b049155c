package story

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/test/reaper"
)

// takeover tries to change a file behind a read-only descriptor, and prints what it could do.
const takeover = `
import ctypes, fcntl, mmap, os
fd = 3
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
def call(f, *args):
    if f(*args) == -1: raise OSError(ctypes.get_errno(), "refused")
def shared(prot): return mmap.mmap(fd, 4096, flags=mmap.MAP_SHARED, prot=prot)
def mapped():
    at = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if at == 2**64 - 1: raise Exception("it cannot be mapped at all")
    return at
tries = {
    "read": lambda: os.pread(fd, 1, 0),
    "map to read": lambda: shared(mmap.PROT_READ),
    "write": lambda: os.pwrite(fd, b"x", 0),
    "map to write": lambda: shared(mmap.PROT_READ | mmap.PROT_WRITE),
    "mprotect": lambda: call(libc.mprotect, mapped(), 4096, mmap.PROT_READ | mmap.PROT_WRITE),
    "MADV_REMOVE": lambda: call(libc.madvise, mapped(), 4096, 9),
    "truncate": lambda: os.ftruncate(fd, 0),
    "extend": lambda: os.ftruncate(fd, 1 << 40),
    "punch a hole": lambda: call(libc.fallocate, fd, 3, 0, 4096),
    "seal": lambda: fcntl.fcntl(fd, 1033, 8),
    "set the access mode": lambda: (fcntl.fcntl(fd, fcntl.F_SETFL, os.O_RDWR), os.pwrite(fd, b"x", 0)),
    "open to write": lambda: os.open("/proc/self/fd/3", os.O_WRONLY),
    "open to read and write": lambda: os.open("/proc/self/fd/3", os.O_RDWR),
    "change the mode": lambda: os.fchmod(fd, 0o666),
    "change the owner": lambda: os.fchown(fd, os.getuid(), os.getgid()),
    "set an attribute": lambda: os.setxattr("/proc/self/fd/3", "user.x", b"x"),
}
for name, do in tries.items():
    try: do(); print(name)
    except OSError: pass
`

// sentryFile is a file that a process of a sandbox has open.
type sentryFile struct {
	pid  int
	fd   int
	name string
}

// identity are the IDs of a process, as in a user namespace of its kind.
type identity struct {
	uid, gid   int // in the namespace
	uids, gids []syscall.SysProcIDMap
}

// identityOf reads the IDs of a process.
func identityOf(t *testing.T, pid int) (who identity) {
	t.Helper()
	read := func(name string) string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	maps := func(text string) (out []syscall.SysProcIDMap) {
		for line := range strings.Lines(text) {
			var m syscall.SysProcIDMap
			if _, err := fmt.Sscan(line, &m.ContainerID, &m.HostID, &m.Size); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			out = append(out, m)
		}
		return out
	}
	inside := func(field string, in []syscall.SysProcIDMap) int {
		for line := range strings.Lines(read("status")) {
			if rest, ok := strings.CutPrefix(line, field); ok {
				id, err := strconv.Atoi(strings.Fields(rest)[1])
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range in {
					if m.HostID <= id && id < m.HostID+m.Size {
						return m.ContainerID + id - m.HostID
					}
				}
			}
		}
		t.Fatalf("process %d: no %s in %v", pid, field, in)
		return 0
	}
	who.uids, who.gids = maps(read("uid_map")), maps(read("gid_map"))
	who.uid, who.gid = inside("Uid:", who.uids), inside("Gid:", who.gids)
	return who
}

// as runs takeover with a file, in a user namespace with the same IDs and all capabilities there, and
// returns what it could do.
func (who identity) as(t *testing.T, f *os.File) string {
	t.Helper()
	// One that every user may execute.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `exec python3 -I -c "$1"`, "sh", takeover)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: who.uids, GidMappings: who.gids,
		Credential: &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid), NoSetGroups: true},
	}
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, c)
	}
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		t.Fatalf("as %+v: %v: %s", who, err, &complaint)
	}
	return strings.Join(strings.Split(strings.TrimSpace(out.String()), "\n"), ", ")
}

// memoryFiles are the files of memory that the processes of a sandbox have open: that of kernels, and
// images of it.
func memoryFiles(t *testing.T, g *garden, id string) (files []sentryFile) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, "run/gvisor", id, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(b), " ")
	keeper, err := strconv.Atoi(first)
	if err != nil {
		t.Fatalf("the process of %s is %q", id, b)
	}
	for _, p := range append(reaper.Descendants(keeper), reaper.Process{PID: keeper}) {
		paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			name, err := os.Readlink(path)
			fd, _ := strconv.Atoi(filepath.Base(path))
			if err == nil && (strings.Contains(name, "memfd:runsc-memory") || strings.Contains(name, ".img")) {
				files = append(files, sentryFile{p.PID, fd, name})
			}
		}
	}
	return files
}

// get returns the same open file as the process has.
func (s sentryFile) get(t *testing.T) *os.File {
	t.Helper()
	pidfd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, s.fd, 0)
	if errors.Is(err, unix.ENOSYS) {
		t.Skip("the kernel has no pidfd_getfd")
	}
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	f := os.NewFile(uintptr(fd), s.name)
	t.Cleanup(func() { f.Close() })
	return f
}

// inode is the number of a file.
func inode(t *testing.T, f *os.File) (ino uint64, writable bool) {
	t.Helper()
	var st unix.Stat_t
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		err = unix.Fstat(int(f.Fd()), &st)
	}
	if err != nil {
		t.Fatal(err)
	}
	return st.Ino, flags&unix.O_ACCMODE != unix.O_RDONLY
}

// TestSentryCannotWriteBases: a process with the descriptors and the IDs of a child's kernel, and without
// its filter of system calls, can read the memory of the parent and of images, and do nothing else with
// it. The child is given IDs that its parent's parent had, whose memory it refers to.
func TestSentryCannotWriteBases(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("sandboxes of an ordinary user all have the user's ID")
	}
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=gvisor")
	g.canSaveMemory()
	f := newFamily(t, g)
	fork := func(id string) string {
		c := decode[api.ForkResult](t, g.must("sandbox", "fork", id, "--json")).Children[0]
		if c.Sandbox == nil {
			t.Fatal(c.Error)
		}
		f.sandboxes[string(c.Sandbox.ID)] = f.sandboxes[id]
		return string(c.Sandbox.ID)
	}
	f.writeAll(f.root)
	first := fork(f.root)
	snapshot := strings.TrimSpace(g.must("sandbox", "snapshot", "--quiet", first))
	restored := strings.TrimSpace(g.must("sandbox", "create", "--quiet", "--template", snapshot))
	f.sandboxes[restored] = f.sandboxes[first]
	was := identityOf(t, memoryFiles(t, g, f.root)[0].pid)
	g.must("sandbox", "kill", f.root)
	second := fork(first)
	if now := identityOf(t, memoryFiles(t, g, second)[0].pid); fmt.Sprint(now) != fmt.Sprint(was) {
		t.Logf("the first sandbox was %v, and the last is %v", was, now)
	}

	control, err := unix.MemfdCreate("control", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{first, second, restored} {
		own, others := map[uint64]bool{}, map[uint64]sentryFile{}
		for _, s := range memoryFiles(t, g, id) {
			ino, writable := inode(t, s.get(t))
			if writable {
				own[ino] = true
			} else if _, ok := others[ino]; !ok {
				others[ino] = s
			}
		}
		if len(own) != 1 || len(others) == 0 {
			t.Errorf("%s writes %d files of memory, and reads %v", id, len(own), others)
		}
		for ino, s := range others {
			if own[ino] {
				t.Errorf("%s has %s also for writing", id, s.name)
			}
			who := identityOf(t, s.pid)
			if got := who.as(t, s.get(t)); got != "read, map to read" {
				t.Errorf("%s, as %v, with %s can: %s", id, who, s.name, got)
			}
			// The control is a file of the same user, behind such a descriptor.
			uid := who.uids[0].HostID + who.uid - who.uids[0].ContainerID
			err := errors.Join(unix.Ftruncate(control, 4096), unix.Fchown(control, uid, uid))
			again, oerr := os.Open(fmt.Sprintf("/proc/self/fd/%d", control))
			if err != nil || oerr != nil {
				t.Fatal(err, oerr)
			}
			if got := who.as(t, again); !strings.Contains(got, "open to read and write, change the mode") {
				t.Errorf("%s, as %v, with a file of its own can: %s", id, who, got)
			}
			again.Close()
		}
	}
	unix.Close(control)
	for _, id := range []string{first, second, restored} {
		f.check(id, f.sandboxes[id])
	}
}
