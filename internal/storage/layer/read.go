package layer

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"
)

// readTree reads and checks the tree.json of a directory. What lies in the directory is
// named from there, so that the store can be moved. The file is the host's own, but a
// disk can fail: what does not make sense is refused.
func readTree(r io.Reader, dir string) (Tree, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxTree+1))
	if err != nil {
		return Tree{}, err
	}
	t, err := parseTree(b, dir)
	if err != nil {
		return Tree{}, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return t, nil
}

// parseTree checks the text of a tree.json.
func parseTree(b []byte, dir string) (t Tree, err error) {
	if len(b) > maxTree {
		return Tree{}, fmt.Errorf("longer than %d bytes", maxTree)
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return Tree{}, err
	}
	if i := t.Image; i != nil && (i.Bytes <= 0 || i.Sum == "" || len(t.Mounts) > 0) {
		return Tree{}, fmt.Errorf("its image of %d bytes does not make sense", i.Bytes)
	}
	if !t.Digest.Valid() {
		return Tree{}, fmt.Errorf("digest %q is malformed", string(t.Digest))
	}
	if t.Root, err = place(dir, t.Root); err != nil {
		return Tree{}, fmt.Errorf("root %w", err)
	}
	for _, m := range t.Mounts {
		if !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" {
			return Tree{}, fmt.Errorf("mount target %q is not a clean absolute path below the root", m.Target)
		}
		if len(m.Lowers) == 0 {
			return Tree{}, fmt.Errorf("mount %s has no source", m.Target)
		}
		for i, l := range m.Lowers {
			if m.Lowers[i], err = place(dir, l); err != nil {
				return Tree{}, fmt.Errorf("mount %s: lower %w", m.Target, err)
			}
		}
	}
	return t, nil
}

// place returns a path of a tree, which is one of this machine or lies in dir.
func place(dir, p string) (string, error) {
	switch {
	case p == "" || path.Clean(p) != p:
	case path.IsAbs(p):
		return p, nil
	case filepath.IsLocal(p):
		return filepath.Join(dir, p), nil
	}
	return "", fmt.Errorf("%q is not a clean path of this machine or in the layer", p)
}
