package forklayer

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/layer/mount"
)

// Mounts are the layers that are mounted. The zero value has none.
type Mounts struct {
	how atomic.Pointer[mount.Mounter] // nil until it was found

	mu   sync.Mutex
	open map[string]*sharedMount
}

// sharedMount is a mount with how many have opened it.
type sharedMount struct {
	users int // under the lock of Mounts
	once  sync.Once
	image *mount.Image
	err   error
}

// Can returns why this process cannot mount layers; nil if it can. dir is a directory for the trial, which is repeated
// until it succeeds: it also fails if the disk is full.
func (m *Mounts) Can(ctx context.Context, dir string) error {
	if m.how.Load() != nil {
		return nil
	}
	how, err := mount.Find(ctx, dir)
	if err == nil {
		m.how.Store(how)
	}
	return err
}

// Layer is a mounted layer.
type Layer struct {
	*mount.Image
	close func()
}

// Open mounts the layer with a name, unless it is mounted. path is its file, and dir a directory for the trial of Can.
func (m *Mounts) Open(ctx context.Context, dir, name, path string) (*Layer, error) {
	if err := m.Can(ctx, dir); err != nil {
		return nil, err
	}
	m.mu.Lock()
	s := m.open[name]
	if s == nil {
		s = &sharedMount{}
		if m.open == nil {
			m.open = map[string]*sharedMount{}
		}
		m.open[name] = s
	}
	s.users++
	m.mu.Unlock()
	s.once.Do(func() { s.image, s.err = m.how.Load().Mount(path) })
	l := &Layer{s.image, sync.OnceFunc(func() { m.leave(name, s) })}
	if s.err != nil {
		l.Close()
		return nil, s.err
	}
	return l, nil
}

// leave ends a use of a mount.
func (m *Mounts) leave(name string, s *sharedMount) {
	m.mu.Lock()
	s.users--
	last := s.users == 0
	if last {
		delete(m.open, name)
	}
	m.mu.Unlock()
	if last && s.image != nil {
		s.image.Close()
	}
}

// Close ends the use. Clones keep working.
func (l *Layer) Close() { l.close() }

// Dir opens the top directory for reading.
func (l *Layer) Dir() (int, error) {
	return unix.Open(l.Path(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// Close ends the uses of layers.
func Close(layers []*Layer) {
	for _, l := range layers {
		l.Close()
	}
}
