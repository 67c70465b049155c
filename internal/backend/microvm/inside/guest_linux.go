package inside

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/serial"
	"hortus.dev/internal/guest/birth"
)

// argStage is the first argument of the stage before the guest; the host name follows.
const argStage = "guest"

// guestUID is the guest's id. No process that it starts has this id.
const guestUID = 65533

// guest is the running guest.
type guest struct {
	cmd    *exec.Cmd
	socket *net.UnixConn
}

// startGuest starts the guest, with its configuration.
func startGuest(cfg birth.Config) (*guest, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &step{"make the guest's socket", err}
	}
	theirs := os.NewFile(uintptr(fds[1]), "guest")
	defer theirs.Close()
	f := os.NewFile(uintptr(fds[0]), "socket")
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return nil, &step{"make the guest's socket", err}
	}
	g := &guest{socket: c.(*net.UnixConn)}
	g.cmd = exec.Command(Argv0, argStage, cfg.Hostname)
	g.cmd.Stdin, g.cmd.Stdout, g.cmd.Stderr = theirs, theirs, os.Stderr
	g.cmd.Env = []string{"GOMAXPROCS=2"} // as other guests have
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	if err := g.cmd.Start(); err != nil {
		return nil, &step{"start the guest", err}
	}
	b, err := json.Marshal(cfg)
	if err == nil {
		_, err = g.socket.Write(b)
	}
	if err != nil {
		return nil, &step{"send the guest its configuration", err}
	}
	return g, nil
}

// wait waits for the end of the guest, and returns how it ended.
func (g *guest) wait() string {
	err := g.cmd.Wait()
	if g.cmd.ProcessState == nil {
		return err.Error()
	}
	return g.cmd.ProcessState.String()
}

// streamTimeout is the maximum wait for a guest to take a stream or a packet.
const streamTimeout = 10 * time.Second

// order is what the host sent: a packet, or a stream.
type order struct {
	packet []byte
	stream *net.UnixConn
}

// forward sends what the host sent to the guest, in that order: a stream after the packet that lets the guest serve again
// must not overtake it. It calls claimed when a packet claims the guest.
func (g *guest) forward(orders <-chan order, claimed func()) {
	for o := range orders {
		g.socket.SetWriteDeadline(time.Now().Add(streamTimeout))
		if o.stream == nil {
			if bytes.HasPrefix(o.packet, []byte(birth.GoPacket)) || bytes.HasPrefix(o.packet, []byte(birth.SelfPacket)) {
				claimed()
			}
			g.socket.Write(o.packet)
			continue
		}
		if raw, err := o.stream.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) {
				// If it cannot be sent it is closed, which the host sees.
				g.socket.WriteMsgUnix([]byte(birth.StreamPacket), unix.UnixRights(int(fd)), nil)
			})
		}
		o.stream.Close()
	}
}

// maxReport is the maximum size of a guest's packet, in bytes.
const maxReport = 4 << 10

// forwardReports sends the guest's packets to the host.
func (g *guest) forwardReports(m *serial.Mux) {
	buf := make([]byte, maxReport)
	for {
		n, err := g.socket.Read(buf)
		if err != nil || n == 0 {
			return
		}
		var r birth.Report
		if json.Unmarshal(buf[:n], &r) == nil {
			send(m, Message{Report: &r})
		}
	}
}

// caps are the capabilities of the guest: see birth.ArgStdio.
func caps() (all uint64) {
	for _, c := range append([]uintptr{unix.CAP_FSETID, unix.CAP_NET_BIND_SERVICE}, birth.OwnKernelCaps...) {
		all |= 1 << c
	}
	return all
}

// becomeGuest finishes the namespaces that this process is the first in, drops privileges and becomes the guest. It
// returns an error, or not at all.
func becomeGuest(hostname string) error {
	runtime.LockOSThread() // privileges are a thread's
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return &step{"make mounts private", err}
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return &step{"set the host name", err}
	}
	if err := mountOwn(); err != nil {
		return err
	}
	// The root of this namespace is below the initial file system, which cannot be unmounted, and is covered.
	if err := unix.Chdir(rootDir); err != nil {
		return &step{"change the root", err}
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return &step{"change the root", err}
	}
	if err := unix.Chroot("."); err != nil {
		return &step{"change the root", err}
	}
	if err := unix.Chdir("/"); err != nil {
		return &step{"change the root", err}
	}
	for _, l := range []struct {
		resource int
		cur, max uint64
	}{{unix.RLIMIT_NOFILE, 16 << 10, 1 << 20}, {unix.RLIMIT_CORE, 0, 0}} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.cur, Max: l.max}); err != nil {
			return &step{"set limits", err}
		}
	}
	if err := initns.Drop(&initns.Spec{Switch: true, UID: guestUID, GID: guestUID, Caps: caps()}); err != nil {
		return &step{"drop privileges", err}
	}
	return &step{"start the guest", unix.Exec(GuestDir+"/"+GuestName, []string{GuestName, birth.ArgStdio}, os.Environ())}
}

// mountOwn mounts what belongs to the namespaces of the guest.
func mountOwn() error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("proc", rootDir+"/proc", "proc", flags, ""); err != nil {
		return &step{"mount /proc", err}
	}
	if err := unix.Mount("devpts", rootDir+"/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"); err != nil {
		return &step{"mount /dev/pts", err}
	}
	// Root inside may write what is root's, unless it is read-only.
	for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus", "fs"} {
		if p := rootDir + "/proc/" + name; exists(p) {
			if err := bindReadOnly(p, p, flags); err != nil {
				return &step{"protect /proc/" + name, err}
			}
		}
	}
	for _, p := range initns.Hidden() {
		if err := hide(rootDir + p); err != nil {
			return &step{"hide " + p, err}
		}
	}
	covers, err := os.ReadDir(coverDir)
	for _, c := range covers {
		err = errors.Join(err, bindReadOnly(filepath.Join(coverDir, c.Name()), rootDir+"/proc/"+c.Name(), flags))
	}
	if err != nil {
		return &step{"show the limits", err}
	}
	return nil
}

// bindReadOnly mounts a file or directory at another path.
func bindReadOnly(from, to string, flags uintptr) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", to, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, "")
}

// hide covers a file or a directory with an empty one.
func hide(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return nil // this kernel has none
	}
	if !fi.IsDir() {
		return unix.Mount(rootDir+"/dev/null", path, "", unix.MS_BIND, "")
	}
	return unix.Mount("hidden", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,mode=0555")
}
