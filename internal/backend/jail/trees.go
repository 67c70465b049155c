package jail

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/layer"
)

// prepared is a tree with what can be mounted of it ahead of time.
type prepared struct {
	tree layer.Tree
	// mounts are detached, read-only mounts, in the order of the tree's; -1
	// where they cannot be made ahead.
	mounts []int
	// lease keeps the tree from being removed.
	lease *layer.Lease
}

func (p *prepared) close() {
	p.lease.Release()
	for _, fd := range p.mounts {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// resolve finds the layers of a Spec.
func (b *Backend) resolve(digests []layer.Digest) ([]*prepared, error) {
	if len(digests) == 0 {
		return nil, api.Errorf(api.KindInvalid, "a sandbox needs at least one layer")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]*prepared, len(digests))
	for i, d := range digests {
		p := b.trees[d]
		if p == nil {
			tree, lease, err := b.cfg.Layers.Lease(d)
			if err != nil {
				return nil, err
			}
			if p, err = b.prepare(tree); err != nil {
				lease.Release()
				return nil, err
			}
			p.lease = lease
			b.trees[d] = p
		}
		out[i] = p
	}
	return out, nil
}

// prepare mounts, detached, what every sandbox of the tree shares. As root the
// shared part is one file system for all, whose caches are warm; it is read-only,
// and ids of the host's are not mapped in it, so that what is not readable by
// everybody stays unreadable. Without root each sandbox mounts its own.
func (b *Backend) prepare(tree layer.Tree) (*prepared, error) {
	p := &prepared{tree: tree}
	for _, m := range tree.Mounts {
		fd := -1
		if b.root {
			var err error
			if fd, err = initns.ReadOnly(m.Lowers, false); err != nil {
				p.close()
				return nil, api.Errorf(api.KindUnisolated, "mount the layers of %s: %w", m.Target, err)
			}
		}
		p.mounts = append(p.mounts, fd)
	}
	return p, nil
}

// duplicate makes another detached mount of a prepared one. Kernels before 6.15
// copy attached mounts only; there it is mounted again.
func duplicate(fd int, lowers []string) (int, error) {
	m, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.EINVAL) {
		return initns.ReadOnly(lowers, false)
	}
	return m, err
}

// mapped makes a detached mount of a directory on which the ids of a user
// namespace stand for the same numbers on disk, so that what root owns on disk
// is root's inside. Where the file system cannot do that, the owner shows as
// nobody and the directory's own files cannot be changed inside.
func mapped(dir string, userns int) (int, error) {
	m, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, err
	}
	err = unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID,
		Userns_fd: uint64(userns),
	})
	if err != nil && err != unix.EINVAL && err != unix.EOPNOTSUPP {
		unix.Close(m)
		return -1, fmt.Errorf("map ids of %s: %w", dir, err)
	}
	return m, nil
}

// devices makes the /dev that all sandboxes share, as root: read-only, so that
// nothing can be told through it.
func (b *Backend) devices() (int, error) {
	if !b.root {
		return -1, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dev < 0 {
		fd, err := initns.Dev()
		if err != nil {
			return -1, api.Errorf(api.KindUnisolated, "prepare /dev: %w", err)
		}
		b.dev = fd
	}
	m, err := unix.OpenTree(b.dev, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.EINVAL) {
		return initns.Dev()
	}
	return m, err
}

// environment merges what the trees' tools need, the upper ones winning, and
// what the user set.
func environment(trees []*prepared, env map[string]string) (path string, all map[string]string) {
	all = map[string]string{}
	for _, p := range trees {
		maps.Copy(all, p.tree.Env)
		if p.tree.Path != "" {
			path = p.tree.Path
		}
	}
	maps.Copy(all, env)
	return path, all
}

// rundir is where a sandbox's socket lies.
func (b *Backend) rundir(id api.SandboxID) string { return filepath.Join(b.dir, string(id)) }
