package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/storage/beneath"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/storedir"
)

// Lease is the right to write to a workspace, or to read it while nobody writes. It
// is a lock on the workspace's directory: the kernel gives it up when the process
// ends, however it ends.
type Lease struct {
	s    *Store
	dir  *os.File
	rec  record
	once sync.Once
	// copying is held for reading while the files are copied, and for writing when the lease ends.
	copying sync.RWMutex
}

// Lease takes a workspace for one writer; KindConflict while another has it, in
// this process or another, or while a process that it was mounted for still lives.
func (s *Store) Lease(ctx context.Context, id api.WorkspaceID) (*Lease, error) {
	l, err := s.lease(id)
	if err != nil {
		return nil, err
	}
	return l.activate(ctx)
}

// activate notes that the workspace is active for this owner, or gives up the lease.
func (l *Lease) activate(ctx context.Context) (*Lease, error) {
	// The record decides on the layers and the quota; a crash may have left the row behind.
	if err := l.s.update(ctx, l.rec, func(w *api.Workspace) {
		w.State, w.Owner, w.Layers, w.QuotaBytes, w.Version = api.WorkspaceActive, l.s.cfg.Owner, l.rec.Layers, l.rec.QuotaBytes, l.rec.Version
	}); err != nil {
		unlock(l.dir)
		return nil, err
	}
	l.s.leases.add(l)
	return l, nil
}

// lease is Lease without the row.
func (s *Store) lease(id api.WorkspaceID) (*Lease, error) {
	l, pid, alive, err := s.held(id)
	if err == nil && alive {
		unlock(l.dir)
		return nil, api.Errorf(api.KindConflict, "workspace %s is still mounted for process %d, which outlived its daemon", id, pid).
			WithHint("restart the daemon to end leftovers of an earlier one")
	}
	return l, err
}

// held takes a workspace's lock, and says for which process it was last mounted and
// whether that is there.
func (s *Store) held(id api.WorkspaceID) (_ *Lease, pid int, alive bool, err error) {
	recorded, err := s.recording.Lock(context.Background(), string(id)) // for the time of one write
	if err != nil {
		return nil, 0, false, err
	}
	defer recorded()
	return s.lockNow(id)
}

// lockNow is held while nobody changes the record.
func (s *Store) lockNow(id api.WorkspaceID) (_ *Lease, pid int, alive bool, err error) {
	f, err := s.openDir(id)
	if err != nil {
		return nil, 0, false, err
	}
	fail := func(err error) (*Lease, int, bool, error) {
		unlock(f) // not locked, where that is what failed
		return nil, 0, false, err
	}
	if err := storedir.Lock(f, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return fail(api.Errorf(api.KindConflict, "workspace %s is in use: only one writer at a time", id).
			WithHint("end the sandbox that uses it"))
	} else if err != nil {
		return fail(api.Errorf(api.KindInternal, "workspace %s: lock: %w", id, err))
	}
	// It may have been removed between the look and the lock.
	mine, err := f.Stat()
	if err != nil {
		return fail(api.Errorf(api.KindInternal, "workspace %s: %w", id, err))
	}
	there, err := os.Lstat(s.path(id))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, there) {
		return fail(api.Errorf(api.KindNotFound, "workspace %s does not exist", id))
	}
	if err != nil {
		return fail(api.Errorf(api.KindInternal, "workspace %s: %w", id, err))
	}
	rec, err := readRecord(f, id)
	if err != nil {
		return fail(err)
	}
	b, err := os.ReadFile(filepath.Join(s.path(id), holderName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(api.Errorf(api.KindInternal, "workspace %s: %w", id, err))
	}
	pid, alive = holderAlive(b)
	return &Lease{s: s, dir: f, rec: rec}, pid, alive, nil
}

// ID names the workspace.
func (l *Lease) ID() api.WorkspaceID { return l.rec.ID }

// Dir is the workspace's directory, with Upper and Work in it; it is valid until
// Release.
func (l *Lease) Dir() *os.File { return l.dir }

// Path is its path.
func (l *Lease) Path() string { return l.s.path(l.rec.ID) }

// Layers are what the workspace lies on, the lowest first.
func (l *Lease) Layers() []layer.Digest {
	return digests(l.rec.Layers)
}

func digests(names []string) []layer.Digest {
	out := make([]layer.Digest, len(names))
	for i, d := range names {
		out[i] = layer.Digest(d)
	}
	return out
}

// Account is the account that the workspace belongs to; "" is the operator.
func (l *Lease) Account() string { return l.rec.Account }

// Stores notes the size of the workspace while it is written to.
func (l *Lease) Stores(bytes int64) { l.s.sizes.set(l.rec, bytes, l.s.sizes.now()) }

// Quota is the maximum size of everything that is written, in bytes; 0 for none.
func (l *Lease) Quota() int64 { return l.rec.QuotaBytes }

// Hold notes the process, the first one of a sandbox, that the workspace is about
// to be mounted for: nobody else gets it while that very process lives.
func (l *Lease) Hold(pid int) error {
	id, err := processID(pid)
	if err == nil {
		err = os.WriteFile(filepath.Join(l.Path(), holderName), []byte(id+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("store the holder of workspace %s: %w", l.rec.ID, err)
	}
	return nil
}

// HoldElsewhere is Hold for a sandbox at another host, which has no process here: its name is noted for Holder. While no daemon has the
// lease, nothing keeps another sandbox from it.
func (l *Lease) HoldElsewhere(name string) error {
	if err := os.WriteFile(filepath.Join(l.Path(), holderName), []byte("elsewhere "+name+"\n"), 0o600); err != nil {
		return fmt.Errorf("store the holder of workspace %s: %w", l.rec.ID, err)
	}
	return nil
}

// Holder names the process that Hold noted last; "" if there was none. It differs for each process of each run of the machine.
func (l *Lease) Holder() string {
	b, err := os.ReadFile(filepath.Join(l.Path(), holderName))
	if err != nil {
		return ""
	}
	return string(b)
}

// Release releases the workspace. It may be called for nil, and again.
func (l *Lease) Release() {
	if l == nil {
		return
	}
	l.once.Do(func() {
		defer l.s.leases.remove(l)()
		// While it is still locked: anyone who is next notes that it is active after this.
		l.s.row(l.rec, func(w *api.Workspace) {
			if w.State == api.WorkspaceActive {
				w.State = api.WorkspaceIdle
			}
		})
		l.s.changed(l.rec)
		unlock(l.dir)
		if l.s.cfg.Released != nil {
			l.s.cfg.Released(l.rec.ID)
		}
	})
}

// unlock releases a lock and closes its file. A process that is being forked elsewhere
// has the descriptor until it executes: closing ours alone would leave the lock with it
// for a moment.
func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	f.Close()
}

// update changes a workspace's row.
func (s *Store) update(ctx context.Context, rec record, change func(*api.Workspace)) error {
	if s.cfg.Rows == nil {
		return nil
	}
	if s.cfg.Elsewhere != nil {
		w, err := s.cfg.Rows.Workspace(ctx, rec.ID)
		if err == nil {
			err = s.moved(ctx, w)
		}
		if err == nil && w.Owner != s.cfg.Owner && s.cfg.Continued != nil {
			if node := s.cfg.Continued(ctx, w); node != "" { // which opens the files of the archive, and takes the row
				err = api.Errorf(api.KindUnavailable, "the work in workspace %s continues on %s", rec.ID, node)
			}
		}
		if err != nil {
			return err
		}
	}
	_, err := s.cfg.Rows.ChangeWorkspace(ctx, rec.ID, func(w *api.Workspace) error {
		if w.State == api.WorkspaceRemoved {
			return api.Errorf(api.KindNotFound, "workspace %s was removed", rec.ID)
		}
		change(w)
		if w.State == api.WorkspaceRemoved {
			w.EndedAt = s.cfg.Now().UTC()
		}
		return nil
	})
	return err
}

// row is update where nobody waits for the outcome: a row that is behind is brought
// up by the next Recover.
func (s *Store) row(rec record, change func(*api.Workspace)) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.update(ctx, rec, change); err != nil {
		s.cfg.Logger.Error("cannot store workspace record", "workspace", rec.ID, "error", err)
	}
}

// Remove removes a workspace and all that was written to it; nil when it is not
// there, KindConflict while somebody has it, or while it is for the child of a fork that starts.
func (s *Store) Remove(ctx context.Context, id api.WorkspaceID, reason string) error {
	if _, ok := s.starting.Load(id); ok {
		return api.Errorf(api.KindConflict, "workspace %s is for a sandbox that is starting", id)
	}
	l, away, err := s.setAside(id, reason)
	if l == nil || err != nil {
		return err
	}
	defer unlock(l.dir)
	if err := s.remove(ctx, away); err != nil {
		return api.Errorf(api.KindOf(err), "workspace %s: remove: %w", id, err).WithHint("the next daemon removes the rest")
	}
	return nil
}

// RemoveLater is Remove, but what was written to the workspace is removed in the background. When
// it returns, nobody finds the workspace any more.
func (s *Store) RemoveLater(id api.WorkspaceID, reason string) error {
	defer s.starting.Delete(id)
	l, away, err := s.setAside(id, reason)
	if l == nil || err != nil {
		return err
	}
	unlock(l.dir)
	s.later(away, func() error { return s.remove(s.ctx, away) })
	return nil
}

// setAside takes a workspace away that is to be removed, and its name; it is locked then. The
// lease is nil if it is not there.
func (s *Store) setAside(id api.WorkspaceID, reason string) (l *Lease, away string, err error) {
	l, err = s.lease(id)
	if api.KindOf(err) == api.KindNotFound {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	// Renamed first: what is interrupted must not look whole, and is swept.
	away = filepath.Join(s.dir, gone+string(id))
	if err := os.Rename(s.path(id), away); err != nil {
		unlock(l.dir)
		return nil, "", api.Errorf(api.KindInternal, "workspace %s: remove: %w", id, err)
	}
	s.row(l.rec, func(w *api.Workspace) { w.State, w.Reason = api.WorkspaceRemoved, reason })
	s.changed(l.rec)
	return l, away, nil
}

// processID names a process beyond the reuse of its number: when it started, and in
// which run of the machine. One that has ended and that nobody has collected yet has
// nothing mounted any more.
func processID(pid int) (string, error) {
	id, err := proc.Identify(pid)
	if err != nil {
		return "", err
	}
	boot, err := proc.BootID()
	return fmt.Sprintf("%d %d %s", id.PID, id.Start, boot), err
}

// holderAlive reports whether the process that a holder file names is there. A record
// that was interrupted is of a daemon that died before the mount.
func holderAlive(record []byte) (pid int, alive bool) {
	text, whole := strings.CutSuffix(string(record), "\n")
	if !whole {
		return 0, false
	}
	if _, err := fmt.Sscan(text, &pid); err != nil || pid <= 1 {
		return 0, false
	}
	now, err := processID(pid)
	return pid, err == nil && now == text
}

// user is the sandbox's identity user.
const user = 1000

// rangeEnd is the end of the ids that sandboxes of root's are given; see the
// container backend.
const rangeBase, rangeEnd = 0x60000000, 0x80000000

// UserID is the id on the disk of what belongs to a sandbox's user: 1000 where each
// sandbox has a range of ids, else the one id that is mapped, which is ours.
func UserID() int {
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	if b, err := os.ReadFile("/proc/self/uid_map"); err == nil && !mapsRanges(string(b)) {
		return 0
	}
	return user
}

func mapsRanges(uidMap string) bool {
	for line := range strings.Lines(uidMap) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil && inside <= rangeBase && rangeEnd <= inside+count {
			return true
		}
	}
	return false
}

// Own transfers a directory and everything below it to the sandbox's user, as a layer
// of a workspace has to be: anyone who builds one calls it at the end. Links are not
// followed. It does nothing where the files are the user's already, because only
// one id is mapped.
func Own(dir string) error {
	id := UserID()
	if os.Geteuid() != 0 || id == 0 {
		return nil
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err == nil {
		defer unix.Close(fd)
		err = own(fd, id, 0)
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "change the owner of %s to the sandbox's user: %w", dir, err)
	}
	return nil
}

// ownDepth bounds the descriptors that Own holds.
const ownDepth = 1024

func own(dir, id, depth int) error {
	if depth > ownDepth {
		return errDeep
	}
	if err := unix.Fchown(dir, id, id); err != nil {
		return err
	}
	return beneath.Names(dir, func(name string) error {
		st, err := beneath.Stat(dir, name)
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return unix.Fchownat(dir, name, id, id, unix.AT_SYMLINK_NOFOLLOW)
		}
		sub, err := beneath.OpenDir(dir, name)
		if err != nil {
			return err
		}
		defer unix.Close(sub)
		return own(sub, id, depth+1)
	})
}
