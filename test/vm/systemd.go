package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// worker is this program's first argument when systemd starts it in the machine.
const worker = "below-systemd"

// units are the units of the machine's systemd in addition to its own. They replace
// what a login would provide to the user's manager: the machine has neither PAM nor
// logind.
var units = map[string]string{
	"hortus-vm.service": `[Unit]
Description=tests of Hortus
Requires=dbus.socket
After=dbus.socket
[Service]
ExecStart=/tests/vm ` + worker + `
StandardOutput=journal+console
StandardError=journal+console
`,
	"user@.service.d/vm.conf": `[Service]
PAMName=
Environment=XDG_RUNTIME_DIR=/run/user/%i
`,
	"user-runtime-dir@.service": `[Unit]
Description=a folder for what belongs to user %i
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/install -d -m 700 -o %i -g %i /run/user/%i
`,
}

// becomeSystemd executes systemd in this process. It returns only after a failure.
func becomeSystemd() error {
	// systemd makes the same tree of groups by itself.
	if err := clearGroups(); err != nil {
		return err
	}
	for name, text := range units {
		path := filepath.Join("/etc/systemd/system", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return unix.Exec("/lib/systemd/systemd", []string{"systemd", "--unit=hortus-vm.service"}, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"})
}

// workerMain runs the steps below systemd and switches the machine off.
func workerMain() {
	v, err := speak()
	if err == nil {
		err = workBelow(v)
	}
	switchOff(v, err)
}

func workBelow(v *voice) error {
	o, err := readOrders()
	if err != nil {
		return err
	}
	if out, err := exec.Command("systemctl", "start", "user@1000.service").CombinedOutput(); err != nil {
		log, _ := exec.Command("journalctl", "-b", "--no-pager", "-n", "40").CombinedOutput()
		return fmt.Errorf("systemd starts no manager for the user: %w\n%s\n%s", err, out, log)
	}
	for _, s := range o.Steps {
		if s.below() {
			v.say(ended(s, func() (int, error) { return runBelow(v, s, o) }))
		}
	}
	v.say(message{Done: true, At: uptime()})
	return nil
}

// runBelow runs one step in the group that systemd makes for it.
func runBelow(v *voice, s step, o orders) (int, error) {
	c, err := prepare(s, o)
	if err != nil {
		return -1, err
	}
	uid := s.UID
	switch s.Group {
	case systemdScope:
		c.env = append(c.env, fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", uid))
		c.args = append([]string{"/usr/bin/systemd-run", "--user", "--scope", "--quiet", "-p", "Delegate=yes", "--"}, c.args...)
	case systemdPlain:
		c.env = append(c.env, fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", uid))
	case systemdService:
		run := []string{"/usr/bin/systemd-run", "--wait", "--pipe", "--quiet", "-p", "Delegate=yes", "-p", fmt.Sprintf("User=%d", uid), "-p", "WorkingDirectory=" + c.dir}
		for _, e := range c.env {
			run = append(run, "-E", e)
		}
		c.args, uid = append(append(run, "--"), c.args...), 0
	default:
		return -1, fmt.Errorf("step %s: systemd makes no group %q", s.Name, s.Group)
	}
	return c.run(v, s, uid, -1)
}

// clearGroups removes the groups that this process made. Their processes must have
// ended.
func clearGroups() error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := removeBelow(cgroupRoot)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
