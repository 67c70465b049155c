package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// passed are the controllers that each group hands down.
const passed = "+cpu +memory +pids +io"

// Where steps run, named as systemd names them.
var places = map[group]string{
	service:   "system.slice/hortus.service",
	delegated: "user.slice/user-1000.slice/user@1000.service/app.slice/hortus.scope",
	session:   "user.slice/user-1000.slice/session-1.scope",
}

// layGroups makes the tree of groups down to those in which steps run, whose
// groups themselves are made anew for each step.
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
	// A user's manager owns its own group and all below.
	manager := filepath.Join(cgroupRoot, "user.slice/user-1000.slice/user@1000.service")
	return errors.Join(give(manager, 1000), give(filepath.Join(manager, "app.slice"), 1000))
}

// give hands a group to a user as the kernel's documentation of delegation tells.
func give(dir string, uid int) error {
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
		return dir, give(dir, s.UID)
	}
	return dir, nil
}

// leave ends every process of a group and removes it with all below. What cannot
// be removed makes the next step of the same group fail.
func leave(dir string) {
	_ = control(dir, "cgroup.kill", "1")
	_ = await("an empty group", func() bool {
		_ = removeBelow(dir)
		_ = os.Remove(dir)
		return !exists(dir)
	})
}

// removeBelow removes the groups below one.
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
