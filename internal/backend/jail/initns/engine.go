package initns

import (
	"fmt"
	"os"
	"path"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/upper"
	"hortus.dev/internal/guest/birth"
)

// Engine is the first argument of the stage as the first process of a container that a container
// engine has built: namespaces, root and mounts are there, and the process is root with the
// capabilities EngineCaps. Nothing of the container's image has run.
const Engine = "engine"

// EngineDir is a read-only directory of the container with this program. EngineSocket, in it, is the
// control socket, on which the host listens until the stage has connected.
const (
	EngineDir    = "/.hortus"
	EngineSocket = EngineDir + "/birth/c"
)

// runEngine does the stage's work in a container of an engine. Its results are those of run; it can
// only continue as the guest in this process.
func runEngine() error {
	if err := connect(); err != nil {
		return err
	}
	spec, fds, err := receive()
	if err != nil {
		return err
	}
	if spec.Listen < 0 || spec.Listen >= len(fds) {
		return at("become the guest", unix.EBADF)
	}
	unix.Umask(0)
	if err := spec.restore(fds); err != nil {
		return err
	}
	if err := prepareEngine(spec); err != nil {
		return err
	}
	// The descriptor of a directory of the sandbox's disk, as other stages send it.
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return at("open the root", err)
	}
	if err := send([]byte(Built), root); err != nil {
		return err
	}
	if _, _, err := place(fds[spec.Listen], root); err != nil {
		return err
	}
	return finishEngine(spec, birth.ListenFD, birth.ControlFD)
}

// prepareEngine makes the container what the guest needs.
func prepareEngine(spec *Spec) error {
	unix.Umask(0)
	if err := spec.fill(); err != nil {
		return err
	}
	if err := setNetwork(spec); err != nil {
		return err
	}
	if err := setLimits(spec); err != nil {
		return err
	}
	if err := nullStdio(); err != nil {
		return err
	}
	return spec.Limits.useProcessors()
}

// finishEngine drops privileges on all threads, and closes all descriptors except those to keep.
func finishEngine(spec *Spec, keep ...int) error {
	holdThreads(spec.Threads)
	unix.Umask(0o022)
	ok, err := dropAllThreads(spec, keep...)
	if err == nil && !ok {
		err = at("drop privileges on all threads", unix.ENOTSUP) // a binary with cgo
	}
	return err
}

// connect connects the control socket at its descriptor. In a program whose runtime uses that descriptor,
// or the guest's, it executes the program again, with both taken.
func connect() error {
	if kind, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, unix.SO_TYPE); err == nil && kind == unix.SOCK_SEQPACKET {
		unix.CloseOnExec(controlFD)
		return nil // executed again
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return at("make the control socket", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: EngineSocket}); err != nil {
		return at("connect the control socket", err)
	}
	if _, err := unix.FcntlInt(birth.ControlFD, unix.F_GETFD, 0); fd == controlFD && err == unix.EBADF {
		return nil
	}
	for _, to := range []int{controlFD, birth.ControlFD} {
		if fd == to {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		} else {
			err = unix.Dup3(fd, to, 0)
		}
		if err != nil {
			return at("place the control socket", err)
		}
	}
	return at("execute the stage again", unix.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// restore makes the root what EngineSave saved. Directories are then as they were saved.
func (s *Spec) restore(fds []int) error {
	files, err := openSaved(s, func(i int) int {
		if i >= len(fds) {
			return -1
		}
		return fds[i]
	})
	if files == nil || err != nil {
		return err
	}
	defer files.close()
	s.Dirs = nil
	root, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return at(SavedStep, err)
	}
	defer unix.Close(root)
	if err := files.r.Over(upper.Root, root); err != nil {
		return at(SavedStep, err)
	}
	return files.end()
}

// fill makes the directories and files of the sandbox's users. The image may be hostile: no link of it
// is followed.
func (s *Spec) fill() error {
	for _, d := range s.Dirs {
		if err := fillDir(d); err != nil {
			return at("make "+d.Path, err)
		}
	}
	for _, f := range s.Files {
		if err := fillFile(f, 0o644); err != nil {
			return at("write "+f.Path, err)
		}
	}
	if len(s.Run) > 0 {
		if err := fillDir(birth.Dir{Path: birth.RunDir, Mode: 0o755}); err != nil {
			return at("make "+birth.RunDir, err)
		}
	}
	for _, f := range s.Run {
		if err := fillFile(f, 0o444); err != nil {
			return at("write "+f.Path, err)
		}
	}
	return nil
}

// openPlain opens a path of which no part is a link.
func openPlain(dir int, p string, flags uint64, mode uint64) (int, error) {
	return unix.Openat2(dir, p, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: mode, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// parent opens the directory that contains a path.
func parent(p string) (dir int, name string, err error) {
	p = path.Clean(p)
	dir, err = openPlain(unix.AT_FDCWD, path.Dir(p), unix.O_PATH|unix.O_DIRECTORY, 0)
	return dir, path.Base(p), err
}

func fillDir(d birth.Dir) error {
	if path.Clean(d.Path) != "/" {
		dir, name, err := parent(d.Path)
		if err != nil {
			return err
		}
		err = unix.Mkdirat(dir, name, 0o755)
		unix.Close(dir)
		if err != nil && err != unix.EEXIST {
			return err
		}
	}
	fd, err := openPlain(unix.AT_FDCWD, path.Clean(d.Path), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fchown(fd, d.UID, d.GID); err != nil {
		return err
	}
	return unix.Fchmod(fd, d.Mode)
}

// fillFile writes a file. A link at its place is replaced: an engine mounts its own files over some of
// those that are written here, so that a file that is there cannot be.
func fillFile(f birth.File, mode uint32) error {
	dir, name, err := parent(f.Path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC
	fd, err := openPlain(dir, name, flags, uint64(mode))
	if err == unix.ELOOP {
		if err = unix.Unlinkat(dir, name, 0); err == nil {
			fd, err = openPlain(dir, name, flags, uint64(mode))
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("it is not a regular file: %w", unix.EINVAL)
	}
	for data := []byte(f.Data); len(data) > 0; {
		n, err := unix.Write(fd, data)
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return unix.Fchmod(fd, mode)
}

// holdThreads makes this process have n threads, which the runtime keeps. A Go program dies if it cannot
// create a thread, and one control group counts those of the guest and of its commands: afterwards no
// command can take a place that the guest needs.
func holdThreads(n int) {
	var ready, done sync.WaitGroup
	release := make(chan struct{})
	for range n {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-release
			runtime.UnlockOSThread()
		})
	}
	ready.Wait()
	close(release)
	done.Wait()
}
