package cgroup

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Controller is a control group controller.
type Controller string

// The controllers that the package uses.
const (
	Memory Controller = "memory"
	Pids   Controller = "pids"
	CPU    Controller = "cpu"
	// Freezer is cgroup.freeze under version 2.
	Freezer Controller = "freezer"
	// CPUAcct is cpu.stat under version 2, which every group has.
	CPUAcct Controller = "cpuacct"
	// Kill is cgroup.kill, which version 2 has since Linux 5.14.
	Kill Controller = "kill"
)

var controllers = []Controller{Memory, Pids, CPU, Freezer, CPUAcct, Kill}

// place is the directory in which a controller's groups are created.
type place struct {
	parent  string
	unified bool
}

// Host is the controllers that this host offers.
type Host struct {
	places  map[Controller]place
	missing map[Controller]string
	parents []string // distinct, in the order of joining
	unified string   // the parent under version 2, or ""
	// home are the tasks files of this process's own version 1 groups, by parent: a
	// thread returns there after a fork.
	home map[string]string
}

// Options configure Detect. Empty paths mean those of the kernel.
type Options struct {
	// Name is the directory in which groups are created; every daemon of a host has
	// its own.
	Name string
	// MountInfo and Self replace /proc/self/mountinfo and /proc/self/cgroup.
	MountInfo, Self string
}

// mount is a mounted hierarchy.
type mount struct {
	point, root string
	unified     bool
	options     []string
}

// Detect looks for controllers and creates the parent directory in each writable hierarchy.
// It fails only if the kernel's tables cannot be read; on a host without any controller, all
// controllers of the Host are missing.
func Detect(o Options) (*Host, error) {
	if o.Name == "" || strings.ContainsAny(o.Name, "/.") {
		return nil, fmt.Errorf("cgroup: the name %q is malformed", o.Name)
	}
	o.MountInfo = cmp.Or(o.MountInfo, "/proc/self/mountinfo")
	o.Self = cmp.Or(o.Self, "/proc/self/cgroup")
	mounts, err := readMounts(o.MountInfo)
	if err != nil {
		return nil, err
	}
	own, err := readSelf(o.Self)
	if err != nil {
		return nil, err
	}
	h := &Host{places: map[Controller]place{}, missing: map[Controller]string{}, home: map[string]string{}}
	for _, c := range controllers {
		h.missing[c] = "no control group hierarchy has this controller"
	}
	for _, m := range mounts {
		if m.unified {
			h.addUnified(m, own[""], o.Name)
		} else {
			h.addV1(m, own, o.Name)
		}
	}
	return h, nil
}

// Has reports whether a controller can be used, and if not, why.
func (h *Host) Has(c Controller) (bool, string) {
	_, ok := h.places[c]
	return ok, h.missing[c]
}

// Unified is the Version of a controller of version 2.
const Unified = "cgroup v2"

// Version is the control group version of a controller, for people.
func (h *Host) Version(c Controller) string {
	p, ok := h.places[c]
	switch {
	case !ok:
		return ""
	case p.unified:
		return Unified
	}
	return "cgroup v1"
}

// Close removes the parent directories that contain no group any more.
func (h *Host) Close() {
	for _, p := range h.parents {
		os.Remove(p) // fails if there is a group inside
	}
}

func (h *Host) use(c Controller, p place) {
	if _, ok := h.places[c]; ok {
		return
	}
	h.places[c] = p
	delete(h.missing, c)
	if !slices.Contains(h.parents, p.parent) {
		h.parents = append(h.parents, p.parent)
	}
}

// addV1 uses the controllers of one version 1 hierarchy.
func (h *Host) addV1(m mount, own map[string]string, name string) {
	var found []Controller
	for _, opt := range m.options {
		if c := Controller(opt); slices.Contains(controllers, c) && c != Kill {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return
	}
	needed := false
	for _, c := range found {
		if _, ok := h.places[c]; !ok {
			needed = true
		}
	}
	if !needed {
		return // mounted twice, or used under version 2
	}
	parent := filepath.Join(m.point, name)
	if err := mkdir(parent); err != nil {
		for _, c := range found {
			h.missing[c] = fmt.Sprintf("cgroup v1 is not writable: %v", err)
		}
		return
	}
	home := ""
	for _, opt := range m.options {
		if p, ok := own[opt]; ok {
			home = filepath.Join(m.point, strings.TrimPrefix(p, m.root), "tasks")
		}
	}
	if _, err := os.Stat(home); err != nil {
		home = filepath.Join(m.point, "tasks")
	}
	h.home[parent] = home
	for _, c := range found {
		h.use(c, place{parent: parent})
	}
}

func mkdir(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	// An existing directory may belong to another user.
	probe := filepath.Join(path, "hortus-probe")
	if err := os.Mkdir(probe, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Remove(probe)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// readMounts lists the mounted control group hierarchies.
func readMounts(path string) ([]mount, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	defer f.Close()
	var out []mount
	for sc := bufio.NewScanner(f); sc.Scan(); {
		left, right, ok := strings.Cut(sc.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 || (r[0] != "cgroup" && r[0] != "cgroup2") {
			continue
		}
		out = append(out, mount{point: l[4], root: strings.TrimSuffix(l[3], "/"), unified: r[0] == "cgroup2", options: strings.Split(r[2], ",")})
	}
	// Version 2 first: it does not offer a controller that is bound to version 1.
	slices.SortStableFunc(out, func(a, b mount) int {
		if a.unified == b.unified {
			return 0
		} else if a.unified {
			return -1
		}
		return 1
	})
	return out, nil
}

// readSelf maps each controller name, and "" for version 2, to this process's
// own group.
func readSelf(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, c := range strings.Split(parts[1], ",") {
			out[c] = parts[2]
		}
	}
	return out, nil
}
