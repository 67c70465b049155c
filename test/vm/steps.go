package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// work runs the steps of process 1. If there are steps for systemd too, it executes
// systemd and does not return.
func work(v *voice) error {
	o, err := readOrders()
	if err != nil {
		return err
	}
	found := boot{Controllers: read(cgroupRoot + "/cgroup.controllers"), Security: read("/sys/kernel/security/lsm"), Kernel: read("/proc/version")}
	for line := range strings.Lines(read("/proc/self/mountinfo")) {
		if strings.Contains(line, " - cgroup ") {
			found.V1 += line
		}
	}
	v.say(message{Boot: &found, At: uptime()})
	if err := layGroups(); err != nil {
		return err
	}
	for _, s := range o.Steps {
		if !s.below() {
			v.say(ended(s, func() (int, error) { return runStep(v, s, o) }))
		}
	}
	if slices.ContainsFunc(o.Steps, step.below) {
		return becomeSystemd()
	}
	v.say(message{Done: true, At: uptime()})
	return nil
}

func readOrders() (o orders, err error) {
	b, err := os.ReadFile("/tests/orders.json")
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	return o, err
}

// ended runs a step and returns a message with the result.
func ended(s step, run func() (int, error)) message {
	start := time.Now()
	code, err := run()
	e := &exit{Code: code, Took: time.Since(start)}
	if err != nil {
		e.Why = err.Error()
	}
	return message{Step: s.Name, Exit: e, At: uptime()}
}

func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

func uptime() time.Duration {
	f := strings.Fields(read("/proc/uptime"))
	s, _ := strconv.ParseFloat(f[0], 64) // valid: the kernel writes it
	return time.Duration(s * float64(time.Second))
}

// call is the command of a step.
type call struct {
	args []string
	dir  string
	env  []string
	tmp  string
}

// prepare makes everything that a step needs, except for its group.
func prepare(s step, o orders) (*call, error) {
	tmp, err := os.MkdirTemp("/tmp", "step")
	if err != nil {
		return nil, err
	}
	// Other users may traverse it, like /tmp itself.
	if err := errors.Join(os.Chown(tmp, s.UID, s.UID), os.Chmod(tmp, 0o755)); err != nil {
		return nil, err
	}
	home, name := "/root", "root"
	if s.UID != 0 {
		home, name = "/home/user", "user"
	}
	return &call{
		args: append([]string{filepath.Join("/tests", binaryName(s.Package)), "-test.v", "-test.count", "1", "-test.timeout", o.Timeout.String()}, s.Args...),
		dir:  filepath.Join("/tests/src", s.Package),
		tmp:  tmp,
		env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + home, "USER=" + name, "TMPDIR=" + tmp, "LANG=C.UTF-8",
			"HORTUS_BIN=/tests/hortus", "HORTUS_TEST_MACHINE=own", "HORTUS_TEST_PATIENCE=" + strconv.Itoa(o.Patience)},
	}, nil
}

// run runs the command to its end as a user, in the group with the descriptor group or,
// if that is -1, in this process's group.
func (c *call) run(v *voice, s step, uid, group int) (int, error) {
	defer os.RemoveAll(c.tmp)
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Dir, cmd.Env = c.dir, c.env
	w := v.of(s.Name)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: group >= 0, CgroupFD: group,
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	err := cmd.Run()
	var e *exec.ExitError
	if errors.As(err, &e) {
		return e.ExitCode(), nil
	}
	return 0, err
}

// runStep runs one step in a new group, and kills the processes that it left.
func runStep(v *voice, s step, o orders) (int, error) {
	dir, err := enter(s)
	if err != nil {
		return -1, err
	}
	defer leave(dir)
	fd, err := os.Open(dir)
	if err != nil {
		return -1, err
	}
	defer fd.Close()
	c, err := prepare(s, o)
	if err != nil {
		return -1, err
	}
	return c.run(v, s, s.UID, int(fd.Fd()))
}

// binaryName returns the name of a package's test binary on the disk of the tests.
func binaryName(pkg string) string { return strings.ReplaceAll(pkg, "/", "-") + ".test" }
