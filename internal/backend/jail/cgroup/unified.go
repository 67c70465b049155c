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

// hostGroup is the group to which the processes of a divided group move: version
// 2 hands controllers down only from a group without processes of its own. It is
// a sibling of the groups of all owners, whatever their names.
const hostGroup = "hortus-host"

// addUnified takes the version 2 hierarchy into use: below this process's own
// group where a service manager handed that over, at the top where that can be
// written, else below the own group all the same.
func (h *Host) addUnified(m mount, own, name string) {
	var refused error
	for _, base := range bases(m, own) {
		if refused = h.divide(m, base, name); refused == nil {
			return
		}
	}
	for _, c := range controllers {
		if _, ok := h.places[c]; !ok {
			h.missing[c] = fmt.Sprintf("cgroup v2 cannot be divided here: %v", refused)
		}
	}
}

// bases are the groups below which ours may be made, the better first.
func bases(m mount, own string) []string {
	out := []string{m.point}
	// Another owner, or this one in an earlier life, moved this process.
	if filepath.Base(own) == hostGroup {
		own = filepath.Dir(own)
	}
	own = strings.TrimPrefix(own, m.root)
	// A path with dots leads out of what is mounted here.
	if p := filepath.Join(m.point, own); p != m.point && own != "" && !strings.Contains(own, "..") {
		out = append(out, p)
		if delegated(p) {
			// What the manager allows the service holds for its sandboxes too.
			out = []string{p, m.point}
		}
	}
	return out
}

// delegated says whether systemd has handed a group over (Delegate=yes), which it
// marks by an attribute.
func delegated(dir string) bool {
	var value [4]byte
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// divide makes the parent of our groups below base, and has base hand down what
// it can. On an error nothing is in use.
func (h *Host) divide(m mount, base, name string) error {
	// A group is of no use if no process can be put into it: the kernel wants
	// the right to write there in the group that is above both.
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
	existing, _ := names(m.point + "/cgroup.controllers") // for the reason alone
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
			h.missing[c] = fmt.Sprintf("cgroup v2 does not hand it down: %v", err)
		case slices.Contains(existing, string(c)):
			h.missing[c] = fmt.Sprintf("cgroup v2 has it, but not for %s", base)
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

// enable lets a controller reach the groups below parent.
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

// makeWay moves the processes of this process's own group into one below it,
// where every limit from above holds for them as before. A delegated group is
// its user's to divide, with all that runs in it: this process, the shell that
// started it, the daemons of other data directories.
func makeWay(base string) error {
	leaf := filepath.Join(base, hostGroup)
	own := strconv.Itoa(os.Getpid())
	// Processes that are started meanwhile show up in the next look.
	for look := range 100 {
		pids, err := names(base + "/cgroup.procs")
		if err != nil || len(pids) == 0 {
			return err
		}
		// Somebody else's group is not ours to divide.
		if look == 0 && !slices.Contains(pids, own) {
			return fmt.Errorf("%s has processes and is not this process's own group", base)
		}
		// One of another pid namespace shows as 0.
		if slices.Contains(pids, "0") {
			return fmt.Errorf("%s has processes that cannot be moved from here", base)
		}
		if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		for _, pid := range pids {
			// One that has ended meanwhile is not there any more.
			if err := write(leaf+"/cgroup.procs", []byte(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return fmt.Errorf("%s is never without processes", base)
}

// names reads a file of words.
func names(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	return strings.Fields(string(b)), err
}
