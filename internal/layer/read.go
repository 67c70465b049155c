package layer

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
)

// readTree reads and checks a tree.json. The file is the host's own, but a disk
// can fail: what does not make sense is refused.
func readTree(r io.Reader) (Tree, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxTree+1))
	if err != nil {
		return Tree{}, err
	}
	if len(b) > maxTree {
		return Tree{}, fmt.Errorf("longer than %d bytes", maxTree)
	}
	var t Tree
	if err := json.Unmarshal(b, &t); err != nil {
		return Tree{}, err
	}
	if !t.Digest.Valid() {
		return Tree{}, fmt.Errorf("digest %q is malformed", string(t.Digest))
	}
	if !path.IsAbs(t.Root) || path.Clean(t.Root) != t.Root {
		return Tree{}, fmt.Errorf("root %q is no clean absolute path", t.Root)
	}
	for _, m := range t.Mounts {
		if !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" {
			return Tree{}, fmt.Errorf("mount target %q is no clean absolute path below the root", m.Target)
		}
		if len(m.Lowers) == 0 {
			return Tree{}, fmt.Errorf("mount %s shows nothing", m.Target)
		}
		for _, l := range m.Lowers {
			if !path.IsAbs(l) || path.Clean(l) != l {
				return Tree{}, fmt.Errorf("mount %s: lower %q is no clean absolute path", m.Target, l)
			}
		}
	}
	return t, nil
}
