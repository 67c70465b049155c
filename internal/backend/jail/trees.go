package jail

import (
	"fmt"
	"maps"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/storage/layer"
)

// prepared is a tree that is in use.
type prepared struct {
	tree layer.Tree
	// lease keeps the tree from being removed.
	lease *layer.Lease
}

func (p *prepared) close() { p.lease.Release() }

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
			p = &prepared{tree: tree, lease: lease}
			b.trees[d] = p
		}
		out[i] = p
	}
	return out, nil
}

// lowers names the layers of a read-only tree to the stage, which mounts an overlay of
// this one sandbox's over them. add takes a descriptor. As root the layers are detached
// mounts, since the stage's user may not enter the directories above them; the ids of
// the host's files are not mapped in them, so that what is not readable by everybody
// stays unreadable.
func (b *Backend) lowers(dirs []string, add func(int) int) ([]initns.Lower, error) {
	out := make([]initns.Lower, len(dirs))
	for i, dir := range dirs {
		out[i] = initns.Lower{FD: -1, Path: dir}
		if !b.root {
			continue
		}
		m, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("clone the mount of %s: %w", dir, err)
		}
		out[i] = initns.Lower{FD: add(m)}
	}
	return out, nil
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

// devices makes the /dev of one sandbox, as root; -1 where the stage has to make it of
// the host's nodes.
func (b *Backend) devices() (int, error) {
	if !b.root {
		return -1, nil
	}
	fd, err := initns.Dev()
	if err != nil {
		return -1, api.Errorf(api.KindUnisolated, "prepare /dev: %w", err)
	}
	return fd, nil
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
