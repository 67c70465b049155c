package attack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Files by which a probe that goes on and its test tell each other where they are. They
// lie where no probe looks.
const (
	readyFile = "/tmp/hortus-ready"
	stopFile  = "/tmp/hortus-stop"
)

// until calls look until the test says that it is enough.
func until(look func()) {
	for {
		_, err := os.Lstat(stopFile)
		look()
		if err == nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// runWatch watches files by inotify and prints what happens to them.
func runWatch(paths []string) int {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	names := map[int32]string{}
	for _, p := range paths {
		wd, err := unix.InotifyAddWatch(fd, p, unix.IN_ALL_EVENTS)
		if err != nil {
			fmt.Fprintln(os.Stderr, p, err)
			return 1
		}
		names[int32(wd)] = p
	}
	if err := os.WriteFile(readyFile, nil, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	seen := map[string]bool{}
	buf := make([]byte, 64<<10)
	until(func() {
		n, err := unix.Read(fd, buf)
		for off := 0; err == nil && off+unix.SizeofInotifyEvent <= n; {
			wd := int32(uint32(buf[off]) | uint32(buf[off+1])<<8 | uint32(buf[off+2])<<16 | uint32(buf[off+3])<<24)
			size := int(buf[off+12]) | int(buf[off+13])<<8
			name := strings.TrimRight(string(buf[off+16:off+16+size]), "\x00")
			if what := strings.TrimSuffix(names[wd]+"/"+name, "/"); !seen[what] {
				seen[what] = true
				fmt.Println("saw", what)
			}
			off += unix.SizeofInotifyEvent + size
		}
	})
	return 0
}

// runLock takes every lock that there is on files, says which it got, and keeps them if
// keep says so.
func runLock(paths []string, keep bool) int {
	for _, p := range paths {
		fd, err := unix.Open(p, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			fmt.Println("cannot open", p, err)
			continue
		}
		say := func(kind string, err error) {
			switch {
			case err == nil:
				fmt.Println("got", kind, p)
			case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES), errors.Is(err, unix.EBUSY):
				fmt.Println("refused", kind, p)
			default:
				fmt.Println("failed", kind, p, err)
			}
		}
		say("flock", unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB))
		// A lock for writing needs a descriptor that can write.
		if rw, err := unix.Open(p, unix.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
			say("posix", unix.FcntlFlock(uintptr(rw), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
		} else if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) && !errors.Is(err, unix.EISDIR) {
			fmt.Println("cannot open", p, err)
		}
	}
	if !keep {
		return 0
	}
	if err := os.WriteFile(readyFile, nil, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	until(func() {})
	return 0
}
