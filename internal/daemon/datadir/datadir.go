package datadir

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/workspace"
)

// Dir is the layout below a data directory.
type Dir string

func (d Dir) Path(name string) string { return filepath.Join(string(d), name) }

func (d Dir) Lock() string     { return d.Path("lock") }
func (d Dir) Socket() string   { return d.Path("hortus.sock") }
func (d Dir) Database() string { return d.Path("hortus.db") }

// RowsAhead is the file of rows that are stored in a database on a server a moment later.
func (d Dir) RowsAhead() string { return d.Path("rows-ahead") }

// DatabaseKey is the file with the key of sealed values.
func (d Dir) DatabaseKey() string { return d.Path("hortus.db-key") }

func (d Dir) Log() string    { return d.Path("daemon.log") }
func (d Dir) Layers() string { return d.Path("layers") }
func (d Dir) Tasks() string  { return d.Path("tasks") }

// Open makes a data directory, or checks that it is one that only its
// owner can reach. Sockets and outputs of untrusted programs lie in it.
func Open(path string) (Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "data directory %s: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", api.Errorf(api.KindInvalid, "cannot create the data directory: %w", err).
			WithHint("use another one: --data-dir DIR")
	}
	var st unix.Stat_t
	if err := unix.Stat(abs, &st); err != nil {
		return "", api.Errorf(api.KindInternal, "data directory %s: %w", abs, err)
	}
	if int(st.Uid) != os.Geteuid() {
		return "", api.Errorf(api.KindDenied, "data directory %s belongs to user %d, not to %d", abs, st.Uid, os.Geteuid()).
			WithHint("use another one: --data-dir DIR")
	}
	if st.Mode&0o077 != 0 {
		if err := os.Chmod(abs, 0o700); err != nil {
			return "", api.Errorf(api.KindDenied, "other users can access data directory %s: %w", abs, err)
		}
	}
	return Dir(abs), nil
}

// Lock is the proof of owning a data directory.
type Lock struct{ f *os.File }

// ErrOwned reports that another process holds the lock.
var ErrOwned = errors.New("the data directory belongs to another daemon")

// AcquireLock takes the lock of a file, or fails with ErrOwned.
func AcquireLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// The lock belongs to the open file: what is executed later inherits
	// neither, since Go opens files close-on-exec.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrOwned
		}
		return nil, err
	}
	return &Lock{f}, nil
}

// Release releases the lock. Without an unlock of its own, a child that was forked and has not executed its program yet
// would keep the lock.
func (l *Lock) Release() {
	unix.Flock(int(l.f.Fd()), unix.LOCK_UN)
	l.f.Close()
}

// LockIsFree reports whether no process holds the lock of a file. Nobody holds the lock
// of a file that does not exist.
func LockIsFree(path string) bool {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return true
	}
	l, err := AcquireLock(path)
	if err != nil {
		return false
	}
	l.Release()
	return true
}

// maxLog is the size in bytes above which the daemon's log is rotated.
const maxLog = 4 << 20

// OpenLog opens the daemon's log for appending. A log above 4 MiB is renamed to
// daemon.log.old first.
func (d Dir) OpenLog() (*os.File, error) {
	path := d.Log()
	if st, err := os.Stat(path); err == nil && st.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, api.Errorf(api.KindInternal, "daemon log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "daemon log: %w", err)
	}
	return f, nil
}

// entries are what a data directory of ours holds, at its top.
var entries = []string{"bin", "builds", "certificates", "daemon.log", "daemon.log.old", "disks", "egress.key", "hortus.db", "hortus.db-ahead", "hortus.db-key", "hortus.db-reserve", "hortus.db-shm", "hortus.db-wal", "hortus.sock", "images", "inventory.json", "kernel", "layers", "lock", "node", "node.partial", "oauth.key", "packages", "repositories", "rows-ahead", "run", "sessions", "snapshots", "store", "store.partial", "tasks", "tokens.key", "volumes", "wasm", "workspaces"}

// backups are the names of copies of the database.
const backups = "hortus.db.bak-v"

// Inspect returns what lies in a data directory: what is ours by name, and what is
// not. Nothing is there when both are empty. It fails with KindDenied for a
// directory that is not, or not provably, a data directory of this user's.
func Inspect(path string) (ours, foreign []string, err error) {
	refuse := func(format string, args ...any) error {
		return api.Errorf(api.KindDenied, "%s is not a data directory of Hortus: "+format, append([]any{path}, args...)...).
			WithHint("set the right one: --data-dir DIR")
	}
	var st unix.Stat_t
	err = unix.Lstat(path, &st)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, api.Errorf(api.KindInternal, "data directory %s: %w", path, err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil, nil, refuse("it is no directory")
	case int(st.Uid) != os.Geteuid():
		return nil, nil, refuse("it belongs to user %d", st.Uid)
	}
	list, err := os.ReadDir(path)
	if err != nil {
		return nil, nil, api.Errorf(api.KindInternal, "data directory %s: %w", path, err)
	}
	has := map[string]bool{}
	for _, e := range list {
		if has[e.Name()] = isOurs(e.Name()); has[e.Name()] {
			ours = append(ours, e.Name())
		} else {
			foreign = append(foreign, e.Name())
		}
	}
	switch {
	case len(list) == 0:
		return nil, nil, nil
	case !has["lock"]:
		return nil, nil, refuse("there is no lock in it")
	case has["hortus.db"] && !isSQLite(filepath.Join(path, "hortus.db")):
		return nil, nil, refuse("hortus.db is no database")
	case !has["hortus.db"] && len(foreign) > 0:
		return nil, nil, refuse("there is no database in it, but %s", foreign[0])
	}
	return ours, foreign, nil
}

func isOurs(name string) bool {
	for _, e := range entries {
		if name == e {
			return true
		}
	}
	if strings.HasPrefix(name, ".tokens.key-") { // a daemon died while it made them
		return true
	}
	v, ok := strings.CutPrefix(name, backups)
	n, _, _ := strings.Cut(v, ".")
	_, err := strconv.Atoi(n)
	return ok && err == nil
}

func isSQLite(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 16)
	n, _ := f.Read(head)
	// One that was made and never written to is empty.
	return n == 0 || string(head[:n]) == "SQLite format 3\x00"
}

// Remove removes what Inspect calls ours, and the directory when nothing else is
// in it. It waits for the daemon to give the directory up, and holds its lock; it
// fails with KindConflict when it does not in time, and when something is mounted
// below.
func Remove(ctx context.Context, path string) error {
	ours, foreign, err := Inspect(path)
	if err != nil {
		return err
	}
	if len(ours)+len(foreign) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return api.Errorf(api.KindInternal, "remove the data directory: %w", err)
		}
		return nil
	}
	lock, err := awaitLock(ctx, Dir(path).Lock())
	if err != nil {
		return err
	}
	defer lock.Release()
	mounts, err := mountsBelow(path)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return api.Errorf(api.KindConflict, "%s is a mount point in the data directory", mounts[0]).WithHint("umount it first")
	}
	// The lock goes last: anyone who comes meanwhile finds the directory owned.
	for _, name := range append(remaining(ours, "lock"), "lock") {
		if name == "workspaces" { // guests wrote what is in them
			if err := workspace.RemoveAll(ctx, filepath.Join(path, name)); err != nil {
				return api.Errorf(api.KindOf(err), "remove the workspaces: %w", err)
			}
			continue
		}
		if err := removeTree(filepath.Join(path, name)); err != nil {
			return api.Errorf(api.KindInternal, "remove the data directory: %w", err)
		}
	}
	if len(foreign) > 0 {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.KindInternal, "remove the data directory: %w", err)
	}
	return nil
}

// awaitLock takes a data directory's lock as soon as its daemon has left.
func awaitLock(ctx context.Context, path string) (*Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		l, err := AcquireLock(path)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, ErrOwned) {
			return nil, api.Errorf(api.KindInternal, "lock the data directory: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, api.Errorf(api.KindConflict, "%s: %w", filepath.Dir(path), ErrOwned).WithHint("stop it: hortus daemon stop --force")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func remaining(list []string, but string) (out []string) {
	for _, s := range list {
		if s != but {
			out = append(out, s)
		}
	}
	return out
}

// removeTree removes a tree, also one with directories that cannot be written.
func removeTree(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}

// mountsBelow lists what is mounted below a directory, as this process sees it.
func mountsBelow(dir string) (out []string, err error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "what is mounted: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && strings.HasPrefix(unescape.Replace(fields[4]), real+"/") {
			out = append(out, unescape.Replace(fields[4]))
		}
	}
	return out, lines.Err()
}

// Listen creates the daemon's unix socket at path. The caller holds the lock of the data
// directory, so an existing socket is the one of a daemon that has ended.
func Listen(path string) (_ *net.UnixListener, err error) {
	defer func() {
		if err != nil {
			err = api.Errorf(api.KindInternal, "listen on %s: %w", path, err)
		}
	}()
	// The kernel limits a socket's path to 107 bytes; a path through a descriptor of
	// its directory is always short enough.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	short := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// The short name is invalid once the descriptor is closed, so the listener cannot
	// unlink it. The file stays until the next daemon removes it, and refuses connections.
	ln.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}
