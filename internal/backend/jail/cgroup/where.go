package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Where locates a group for another process, which may itself create groups below other
// parents.
type Where struct {
	// Parents are the directories that contain the group's directories. Unified is the
	// one of them that is of version 2; it may be empty.
	Parents []string `json:"parents,omitempty"`
	Unified string   `json:"unified,omitempty"`
	// Controllers maps each controller in use to its parent.
	Controllers map[Controller]string `json:"controllers,omitempty"`
}

// Where locates the group.
func (g *Group) Where() Where {
	w := Where{Parents: slices.Clone(g.h.parents), Unified: g.h.unified, Controllers: map[Controller]string{}}
	for c, p := range g.h.places {
		w.Controllers[c] = p.parent
	}
	return w
}

// maxParents is the maximum number of hierarchies: one for each controller.
const maxParents = 8

// At names a group that another process created. It fails if a directory is not in a control
// group hierarchy.
func At(id string, w Where) (*Group, error) {
	if id == "" || strings.ContainsAny(id, "/.") {
		return nil, fmt.Errorf("cgroup: the name %q is malformed", id)
	}
	if len(w.Parents) > maxParents || len(w.Controllers) > len(controllers) {
		return nil, errors.New("cgroup: too many hierarchies")
	}
	h := &Host{places: map[Controller]place{}, missing: map[Controller]string{}, home: map[string]string{}, parents: slices.Clone(w.Parents), unified: w.Unified}
	for _, p := range w.Parents {
		var fs unix.Statfs_t
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			return nil, fmt.Errorf("cgroup: the directory %q is malformed", p)
		}
		want := int64(unix.CGROUP_SUPER_MAGIC)
		if p == w.Unified {
			want = unix.CGROUP2_SUPER_MAGIC
		}
		if err := unix.Statfs(p, &fs); err != nil {
			return nil, fmt.Errorf("cgroup: %w", &os.PathError{Op: "statfs", Path: p, Err: err})
		}
		if int64(fs.Type) != want {
			return nil, fmt.Errorf("cgroup: %s is not in a hierarchy of that version", p)
		}
	}
	if w.Unified != "" && !slices.Contains(w.Parents, w.Unified) {
		return nil, errors.New("cgroup: the directory of version 2 does not belong to the group")
	}
	for _, c := range controllers {
		p, ok := w.Controllers[c]
		switch {
		case !ok:
			h.missing[c] = "the group was created without this controller"
		case !slices.Contains(w.Parents, p):
			return nil, fmt.Errorf("cgroup: the directory of %s does not belong to the group", c)
		default:
			h.places[c] = place{p, p == w.Unified}
		}
	}
	for c := range w.Controllers {
		if !slices.Contains(controllers, c) {
			return nil, fmt.Errorf("cgroup: there is no controller %q", c)
		}
	}
	return &Group{h, id}, nil
}

// Holds reports whether a process is in the group, in every hierarchy. It fails if one cannot
// be read.
func (g *Group) Holds(pid int) (bool, error) {
	for _, p := range g.h.parents {
		b, err := os.ReadFile(filepath.Join(p, g.id, "cgroup.procs"))
		if err != nil {
			return false, fmt.Errorf("cgroup: %w", err)
		}
		if !slices.Contains(strings.Fields(string(b)), fmt.Sprint(pid)) {
			return false, nil
		}
	}
	return true, nil
}

// Frozen reports whether the group is frozen or freezing.
func (g *Group) Frozen() (bool, error) {
	dir, unified, ok := g.dir(Freezer)
	if !ok {
		return false, nil
	}
	name, thawed := "freezer.state", "THAWED"
	if unified {
		name, thawed = "cgroup.freeze", "0"
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return false, fmt.Errorf("cgroup: %w", err)
	}
	return strings.TrimSpace(string(b)) != thawed, nil
}

// Complete ends a freeze or thaw that another process began.
func (g *Group) Complete(ctx context.Context, frozen bool) error {
	if _, _, ok := g.dir(Freezer); !ok {
		return nil
	}
	return g.setFrozen(ctx, frozen)
}
