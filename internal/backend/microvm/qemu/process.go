package qemu

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a running machine.
type Process struct {
	cmd *exec.Cmd
}

// Start starts a machine. in runs the function that starts the process, for example in a control group of version 1; its
// argument is a descriptor of one of version 2, or -1.
func Start(m Machine, in func(func(cgroup int) error) error) (*Process, error) {
	args, files, err := m.args()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(m.Program, args...)}
	p.cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	p.cmd.Dir = "/"
	p.cmd.ExtraFiles = files
	p.cmd.Stderr = m.Stderr
	a := &syscall.SysProcAttr{Setsid: true}
	if m.User > 0 {
		a.Credential = &syscall.Credential{Uid: uint32(m.User), Gid: uint32(m.User)}
		for _, g := range m.Groups {
			a.Credential.Groups = append(a.Credential.Groups, uint32(g))
		}
	}
	if m.Namespaces {
		a.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNS
	}
	p.cmd.SysProcAttr = a
	err = in(func(cgroup int) error {
		if cgroup >= 0 {
			a.UseCgroupFD, a.CgroupFD = true, cgroup
		}
		return p.cmd.Start()
	})
	if err != nil {
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	return p, nil
}

// PID is the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process.
func (p *Process) Kill() { p.cmd.Process.Kill() }

// Wait waits for the end, and returns how it was.
func (p *Process) Wait() *os.ProcessState {
	p.cmd.Wait()
	return p.cmd.ProcessState
}
