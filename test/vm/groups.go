package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// passed lists the controllers that each group enables for its children.
const passed = "+cpu +memory +pids +io"

// places maps groups to their paths, which are those of systemd.
var places = map[group]string{
	service:   "system.slice/hortus.service",
	delegated: "user.slice/user-1000.slice/user@1000.service/app.slice/hortus.scope",
	session:   "user.slice/user-1000.slice/session-1.scope",
}

// layGroups makes the parents of the groups in which steps run. The groups themselves
// are made again for each step.
func layGroups() error {
	for _, place := range places {
		at := cgroupRoot
		for _, name := range strings.Split(filepath.Dir(place), "/") {
			if err := control(at, "cgroup.subtree_control", passed); err != nil {
				return err
			}
			at = filepath.Join(at, name)
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
		}
		if err := control(at, "cgroup.subtree_control", passed); err != nil {
			return err
		}
	}
	// A user's manager owns its group and all groups below it.
	manager := filepath.Join(cgroupRoot, "user.slice/user-1000.slice/user@1000.service")
	return errors.Join(delegate(manager, 1000), delegate(filepath.Join(manager, "app.slice"), 1000))
}

// delegate delegates a group to a user, as documented for the kernel.
func delegate(dir string, uid int) error {
	err := os.Chown(dir, uid, uid)
	for _, f := range []string{"cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		err = errors.Join(err, os.Chown(filepath.Join(dir, f), uid, uid))
	}
	return err
}

func control(dir, file, value string) error {
	if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644); err != nil {
		return fmt.Errorf("control group %s: %w", dir, err)
	}
	return nil
}

// enter makes the group of a step.
func enter(s step) (string, error) {
	place, ok := places[s.Group]
	if !ok {
		return "", fmt.Errorf("step %s: no group %q", s.Name, s.Group)
	}
	dir := filepath.Join(cgroupRoot, place)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if s.Group == delegated {
		return dir, delegate(dir, s.UID)
	}
	return dir, nil
}

// leave kills all processes of a group and removes it with all groups below it. If that
// fails, the next step in the same group fails.
func leave(dir string) {
	_ = control(dir, "cgroup.kill", "1")
	_ = await("an empty group", func() bool {
		_ = removeBelow(dir)
		_ = os.Remove(dir)
		return !exists(dir)
	})
}

// removeBelow removes the groups below a group.
func removeBelow(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if sub := filepath.Join(dir, e.Name()); e.IsDir() {
			if err := errors.Join(removeBelow(sub), os.Remove(sub)); err != nil {
				return err
			}
		}
	}
	return nil
}
