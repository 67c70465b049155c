package watch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/files"
	"hortus.dev/internal/guest/identity"
)

// maxWatched is the maximum number of directories of one watch.
const maxWatched = 8192

// watch reports changes below a directory, by inotify.
type watch struct {
	s    *Service
	id   *identity.Identity
	root string
	req  *envd.WatchRequest
	f    *os.File         // the inotify descriptor
	dirs map[int32]string // watch descriptor to the directory's path below root
	buf  []byte
}

const watchMask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_ATTRIB | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// networkFS lists file systems on which inotify misses changes by other machines.
var networkFS = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS", unix.SMB2_SUPER_MAGIC: "SMB",
}

// newWatch starts a watch.
func (s *Service) newWatch(id *identity.Identity, req *envd.WatchRequest) (*watch, error) {
	w := &watch{s: s, id: id, root: id.Resolve(req.Path), req: req, dirs: make(map[int32]string), buf: make([]byte, 16<<10)}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, api.Errorf(api.KindExhausted, "watch '%s': %w", w.root, err)
	}
	w.f = os.NewFile(uintptr(fd), "inotify")
	err = s.access.As(&id.Identity, func() error {
		fi, err := os.Stat(w.root)
		if err != nil {
			return err
		}
		if !fi.IsDir() {
			return api.Errorf(api.KindInvalid, "path '%s' is not a directory", w.root)
		}
		var st unix.Statfs_t
		if err := unix.Statfs(w.root, &st); err != nil {
			return err
		}
		if name := networkFS[int64(st.Type)]; name != "" && !req.AllowNetworkMounts {
			return api.Errorf(api.KindInvalid, "path '%s' is on a network file system (%s): changes by other machines are not reported. Set allowNetworkMounts to watch anyway", w.root, name)
		}
		_, err = w.add("", nil)
		return err
	})
	if err != nil {
		w.f.Close()
		return nil, files.Error(w.root, err)
	}
	return w, nil
}

// add watches a directory, and with Recursive those below it. Unless found is nil, it
// appends events for the files that it finds: they may have been created before the watch.
// It must be called with the identity's rights.
func (w *watch) add(rel string, found []*envd.FilesystemEvent) ([]*envd.FilesystemEvent, error) {
	if len(w.dirs) >= maxWatched {
		return found, api.Errorf(api.KindExhausted, "watch '%s': more than %d directories", w.root, maxWatched)
	}
	dir := filepath.Join(w.root, rel)
	wd, err := unix.InotifyAddWatch(int(w.f.Fd()), dir, watchMask)
	if err != nil {
		return found, err
	}
	w.dirs[int32(wd)] = rel
	if !w.req.Recursive {
		return found, nil
	}
	names, err := files.Names(dir, files.MaxEntries)
	if err != nil {
		return found, err
	}
	for _, name := range names {
		below := filepath.Join(rel, name)
		fi, err := os.Lstat(filepath.Join(w.root, below))
		if err != nil {
			continue
		}
		if found != nil {
			found = append(found, w.event(below, envd.EventCreate))
		}
		if fi.IsDir() {
			found, err = w.add(below, found)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return found, err
			}
		}
	}
	return found, nil
}

func (w *watch) event(name string, t envd.EventType) *envd.FilesystemEvent {
	e := &envd.FilesystemEvent{Name: name, Type: t}
	if w.req.IncludeEntry && (t == envd.EventCreate || t == envd.EventWrite || t == envd.EventChmod) {
		if entry, err := w.s.files.Entry(filepath.Join(w.root, name)); err == nil {
			e.Entry = entry
		}
	}
	return e
}

// next waits for changes. It returns os.ErrDeadlineExceeded at the deadline of the
// descriptor.
func (w *watch) next() ([]*envd.FilesystemEvent, error) {
	n, err := w.f.Read(w.buf)
	if err != nil {
		return nil, err
	}
	out := []*envd.FilesystemEvent{}
	err = w.s.access.As(&w.id.Identity, func() (err error) {
		for b := w.buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			size := int(binary.NativeEndian.Uint32(b[12:]))
			name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], []byte{0})
			b = b[unix.SizeofInotifyEvent+size:]
			if out, err = w.translate(out, wd, mask, string(name)); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// translate appends the events for one inotify event.
func (w *watch) translate(out []*envd.FilesystemEvent, wd int32, mask uint32, name string) ([]*envd.FilesystemEvent, error) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		return out, api.Errorf(api.KindExhausted, "watch '%s': changes came faster than they were read; some are lost", w.root)
	}
	rel, ok := w.dirs[wd]
	if !ok {
		return out, nil
	}
	if mask&unix.IN_IGNORED != 0 {
		delete(w.dirs, wd)
		if rel == "" {
			return out, api.Errorf(api.KindNotFound, "path '%s' no longer exists", w.root)
		}
		return out, nil
	}
	if name == "" {
		return out, nil // the parent reports the directory itself
	}
	path := filepath.Join(rel, name)
	switch {
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		out = append(out, w.event(path, envd.EventCreate))
		if mask&unix.IN_ISDIR != 0 && w.req.Recursive {
			more, err := w.add(path, out)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.ENOTDIR) {
				return more, err
			}
			out = more
		}
	case mask&unix.IN_MODIFY != 0:
		out = append(out, w.event(path, envd.EventWrite))
	case mask&unix.IN_DELETE != 0:
		out = append(out, w.event(path, envd.EventRemove))
	case mask&unix.IN_MOVED_FROM != 0:
		out = append(out, w.event(path, envd.EventRename))
		w.forget(path)
	case mask&unix.IN_ATTRIB != 0:
		out = append(out, w.event(path, envd.EventChmod))
	}
	return out, nil
}

// forget removes the watches of a directory that was moved away. If the directory is moved
// back, it is watched again under its new name.
func (w *watch) forget(path string) {
	for wd, dir := range w.dirs {
		if dir == path || (len(dir) > len(path) && dir[:len(path)+1] == path+"/") {
			unix.InotifyRmWatch(int(w.f.Fd()), uint32(wd))
			delete(w.dirs, wd)
		}
	}
}
