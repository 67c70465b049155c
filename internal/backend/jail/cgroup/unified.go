package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// hostGroup is the group to which the processes of a group move that is to delegate
// controllers: version 2 allows that only for a group without processes of its own. It is a
// sibling of the groups of all daemons.
const hostGroup = "hortus-host"

// addUnified uses the version 2 hierarchy: below this process's own group if a service
// manager delegated it, otherwise at the top if that is writable, otherwise below the own
// group.
func (h *Host) addUnified(m mount, own, name string) {
	var refused error
	for _, base := range bases(m, own) {
		if refused = h.divide(m, base, name); refused == nil {
			return
		}
	}
	for _, c := range controllers {
		if _, ok := h.places[c]; !ok {
			h.missing[c] = fmt.Sprintf("cgroup v2 groups cannot be created here: %v", refused)
		}
	}
}

// bases are the groups below which ours may be created, the preferred first.
func bases(m mount, own string) []string {
	out := []string{m.point}
	// Another daemon, or an earlier one, moved this process.
	if filepath.Base(own) == hostGroup {
		own = filepath.Dir(own)
	}
	own = strings.TrimPrefix(own, m.root)
	// A path with dots leads out of what is mounted here.
	if p := filepath.Join(m.point, own); p != m.point && own != "" && !strings.Contains(own, "..") {
		out = append(out, p)
		if delegated(p) {
			// The limits of the service then also hold for its sandboxes.
			out = []string{p, m.point}
		}
	}
	return out
}

// delegated reports whether systemd has delegated a group (Delegate=yes), which it marks
// with an attribute.
func delegated(dir string) bool {
	var value [4]byte
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// divide creates the parent of our groups below base, and delegates the controllers of base
// to it. After an error nothing is used.
func (h *Host) divide(m mount, base, name string) error {
	// To put a process into a group, the kernel requires write access to the group that
	// is above both its old and its new one.
	if err := unix.Faccessat(unix.AT_FDCWD, base+"/cgroup.procs", unix.W_OK, unix.AT_EACCESS); err != nil {
		return &os.PathError{Op: "write", Path: base + "/cgroup.procs", Err: err}
	}
	parent := filepath.Join(base, name)
	if err := mkdir(parent); err != nil {
		return err
	}
	offered, err := names(base + "/cgroup.controllers")
	if err != nil {
		return err
	}
	existing, _ := names(m.point + "/cgroup.controllers") // for the reason only
	var enabled []Controller
	var refused error
	for _, c := range []Controller{Memory, Pids, CPU} {
		if _, ok := h.places[c]; ok {
			continue
		}
		switch {
		case slices.Contains(offered, string(c)):
			err := enable(base, parent, c)
			if err == nil {
				enabled = append(enabled, c)
				continue
			}
			refused = err
			h.missing[c] = fmt.Sprintf("cgroup v2 cannot delegate this controller: %v", err)
		case slices.Contains(existing, string(c)):
			h.missing[c] = fmt.Sprintf("cgroup v2 has this controller, but not in %s", base)
		}
	}
	if refused != nil && len(enabled) == 0 {
		os.Remove(parent)
		return refused
	}
	h.unified = parent
	h.use(CPUAcct, place{parent, true})
	if exists(filepath.Join(parent, "cgroup.freeze")) {
		h.use(Freezer, place{parent, true})
	}
	if exists(filepath.Join(parent, "cgroup.kill")) {
		h.use(Kill, place{parent, true})
	}
	for _, c := range enabled {
		h.use(c, place{parent, true})
	}
	return nil
}

// enable enables a controller for the groups below parent.
func enable(base, parent string, c Controller) error {
	on := []byte("+" + string(c))
	err := write(base+"/cgroup.subtree_control", on)
	if errors.Is(err, unix.EBUSY) {
		if err = makeWay(base); err == nil {
			err = write(base+"/cgroup.subtree_control", on)
		}
	}
	if err != nil {
		return err
	}
	return write(parent+"/cgroup.subtree_control", on)
}

// makeWay moves the processes of this process's own group into a group below it, where the
// limits from above still apply. The user of a delegated group may do that with everything
// that runs in it: this process, the shell that started it, the daemons of other data
// directories.
func makeWay(base string) error {
	leaf := filepath.Join(base, hostGroup)
	own := strconv.Itoa(os.Getpid())
	// The next round finds processes that were started meanwhile.
	for look := range 100 {
		pids, err := names(base + "/cgroup.procs")
		if err != nil || len(pids) == 0 {
			return err
		}
		// The group must be our own.
		if look == 0 && !slices.Contains(pids, own) {
			return fmt.Errorf("%s has processes and is not this process's own group", base)
		}
		// A process of another pid namespace is shown as 0.
		if slices.Contains(pids, "0") {
			return fmt.Errorf("%s has processes of another pid namespace, which cannot be moved", base)
		}
		if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		for _, pid := range pids {
			// It may have ended meanwhile.
			if err := write(leaf+"/cgroup.procs", []byte(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return fmt.Errorf("%s always has processes", base)
}

// names reads a file of words.
func names(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	return strings.Fields(string(b)), err
}
