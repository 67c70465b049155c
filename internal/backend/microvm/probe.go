package microvm

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/microvm/kernel"
	"hortus.dev/internal/backend/microvm/qemu"
	"hortus.dev/internal/backend/microvm/serial"
)

const kvmDevice = "/dev/kvm"

// host is what a host has for machines.
type host struct {
	qemu        string
	version     string // of QEMU
	kernel      kernel.Kernel
	accelerator string
	groups      []int // that may use KVM
}

// Probe implements sandbox.Backend. It boots a machine: that a device of KVM exists proves nothing. The first complete
// report is kept.
func (b *Backend) Probe(ctx context.Context) api.BackendReport {
	b.mu.Lock()
	have := b.report
	b.mu.Unlock()
	if have != nil {
		return *have
	}
	h, start := b.inspect(ctx)
	r := b.describe(h, start)
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() == nil && (start.OK || h != nil && h.accelerator != "") { // one that was interrupted, or lacks a part that can be installed, is not kept
		b.report, b.host = &r, h
	}
	return r
}

// inspect finds out whether and how machines can be started here.
func (b *Backend) inspect(ctx context.Context) (*host, api.Ability) {
	a := api.Ability{Capability: api.CapStart}
	no := func(fix, format string, args ...any) (*host, api.Ability) {
		a.Reason, a.Fix = fmt.Sprintf(format, args...), fix
		return nil, a
	}
	if runtime.GOARCH != "amd64" {
		return no("", "the microvm backend starts machines with x86-64 processors only")
	}
	h := &host{qemu: b.cfg.QEMU}
	var err error
	if h.qemu == "" {
		h.qemu, err = exec.LookPath("qemu-system-x86_64")
	}
	if err == nil {
		h.version, err = versionOf(ctx, h.qemu)
	}
	if err != nil {
		return no("Install QEMU (Debian: apt-get install qemu-system-x86).", "QEMU does not run: %v", err)
	}
	if h.kernel, err = kernel.Open(b.cfg.Kernel); err != nil {
		return no(api.HintOf(err), "%v", err)
	}
	why := b.proveKVM(ctx, h)
	if why == "" {
		a.OK, a.Reason = true, fmt.Sprintf("QEMU %s with KVM, kernel %s", h.version, h.kernel.Release)
		return h, a
	}
	if !b.cfg.Emulate {
		return no("Use a host with KVM, or, for tests, set microvm.emulate = true: QEMU then emulates the processor, which is many times slower.", "%s", why)
	}
	h.accelerator = qemu.Emulation
	if err := b.try(ctx, h, emulationTimeout); err != nil {
		return no("", "%s, and under emulation: %v", why, err)
	}
	a.OK, a.Reason = true, fmt.Sprintf("QEMU %s emulates the processor, which is slow: %s; kernel %s", h.version, why, h.kernel.Release)
	return h, a
}

// emulationTimeout is the maximum time of a boot under emulation.
const emulationTimeout = 2 * time.Minute

// proveKVM boots a machine with KVM. It returns why there is none.
func (b *Backend) proveKVM(ctx context.Context, h *host) string {
	var st unix.Stat_t
	if err := unix.Stat(b.kvm, &st); err != nil {
		return "this host has no KVM: " + err.Error()
	}
	if b.ids != nil {
		switch {
		case st.Mode&0o006 == 0o006:
		case st.Mode&0o060 == 0o060 && st.Gid != 0:
			h.groups = []int{int(st.Gid)}
		default:
			return fmt.Sprintf("%s may be used by root only, as which no machine runs (chgrp kvm %[1]s && chmod 0660 %[1]s)", b.kvm)
		}
	} else if f, err := os.OpenFile(b.kvm, os.O_RDWR, 0); err != nil {
		return "this user may not use KVM: " + err.Error()
	} else {
		f.Close()
	}
	h.accelerator = qemu.KVM
	if err := b.try(ctx, h, b.cfg.ProbeTimeout); err != nil {
		return fmt.Sprintf("%s exists, but a machine does not run with it: %v", b.kvm, err)
	}
	return ""
}

// versionOf returns the version of a QEMU.
func versionOf(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(out), "version ")
	if !ok || rest == "" {
		return "", fmt.Errorf("%s does not say its version", path)
	}
	return strings.Fields(rest)[0], nil
}

// trialPrefix begins the names of the run directories of machines that prove something.
const trialPrefix = "trial-"

// try boots a machine without disks until its first process answers, and ends it.
func (b *Backend) try(ctx context.Context, h *host, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it does not answer within %v", within))
	defer cancel()
	dir, err := os.MkdirTemp(b.dir, trialPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	v := &vessel{b: b, dir: dir, host: h, memory: b.ram(64 << 20), processors: 1}
	defer v.free()
	if err = v.start(ctx); err == nil {
		var m *serial.Mux
		if m, err = v.dial(ctx); err == nil {
			return m.Close()
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return err
}

// connect connects to a socket in a directory whose path may be longer than the address of a socket.
func connect(ctx context.Context, dir, name string) (*net.UnixConn, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name))
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// listen makes a listening socket in a directory.
func listen(dir, name string) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name), Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	return l.File()
}

// initramfs returns the initial file system of a kernel with this guest, which it makes if it is not there.
func (b *Backend) initramfs(ctx context.Context, k kernel.Kernel) (*os.File, error) {
	unlock, err := b.making.Lock(ctx, "initramfs")
	if err != nil {
		return nil, err
	}
	defer unlock()
	name := filepath.Join(b.cfg.Images, "initramfs-"+k.Digest[:16]+"-"+b.digest[:16])
	if f, err := os.Open(name); err == nil {
		return f, nil
	}
	if old, err := filepath.Glob(filepath.Join(b.cfg.Images, "initramfs-*")); err == nil {
		for _, o := range old {
			os.Remove(o) // running machines have it in memory
		}
	}
	modules, err := os.Open(k.Modules)
	if err != nil {
		return nil, err
	}
	defer modules.Close()
	f, err := os.CreateTemp(b.cfg.Images, "new-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) // fails after the rename
	defer f.Close()
	if _, err = f.ReadFrom(modules); err == nil {
		err = kernel.WriteProgram(f, b.guest)
	}
	if err == nil {
		err = f.Chmod(0o644) // QEMU's users read it
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}

// describe makes the report.
func (b *Backend) describe(h *host, start api.Ability) api.BackendReport {
	const otherwise = "Use --isolation container."
	walls := "a virtual machine with a kernel of its own"
	if b.ids != nil {
		walls += "; QEMU is unprivileged, with a user, a process and a network namespace of its own, and its system call filter"
	} else {
		walls += "; QEMU has its system call filter, and the user of the daemon"
	}
	yes := func(c api.Capability, reason string) api.Ability {
		return api.Ability{Capability: c, OK: true, Reason: reason}
	}
	cpu := yes(api.CapLimitCPU, "control groups")
	if ok, why := b.cgroups.Has("cpu"); !ok {
		cpu = yes(api.CapLimitCPU, "whole processors of the machine only: "+why)
	}
	isolated := yes(api.CapIsolated, walls)
	if h != nil && h.accelerator == qemu.Emulation {
		isolated = api.Ability{Capability: api.CapIsolated, Reason: "QEMU promises no security for the emulation of a processor", Fix: "Use a host with KVM."}
	}
	all := []api.Ability{
		isolated,
		yes(api.CapRootIdentity, "root is an id of the machine's own kernel"),
		yes(api.CapUserIdentity, ""),
		yes(api.CapPause, "the processors of the machine stop"),
		cpu,
		yes(api.CapLimitCPUTime, "processor time of QEMU, checked by the daemon"),
		yes(api.CapLimitMemory, "by the machine's own kernel; it has no more memory than that and its own"),
		yes(api.CapLimitProcs, "by the machine's own kernel"),
		yes(api.CapLimitDisk, "the size of the machine's disk; /dev/shm counts as memory"),
		{Capability: api.CapLimitDiskRate, Reason: "the microvm backend does not limit the rate of disks", Fix: otherwise},
		yes(api.CapLimitOutput, "counted by the daemon"),
		yes(api.CapPrivateFiles, ""),
		yes(api.CapNoNetwork, "the machine has no network device"),
		yes(api.CapCheckpoint, "memory and files"),
		{Capability: api.CapWorkspace, Reason: "the microvm backend has no access to durable workspaces", Fix: otherwise},
		{Capability: api.CapEgress, OK: true, Grade: api.EgressByHost, Reason: "captured by the machine's own kernel"},
		yes(api.CapPool, ""),
		yes(api.CapAdopt, ""),
		yes(api.CapPrograms, ""),
	}
	r := api.BackendReport{Backend: b.Name(), Abilities: []api.Ability{start}}
	for _, a := range all {
		if !start.OK && a.OK {
			a = api.Ability{Capability: a.Capability, Reason: start.Reason, Fix: start.Fix}
			if a.Capability == api.CapEgress {
				a.Grade = api.EgressByNobody
			}
		}
		r.Abilities = append(r.Abilities, a)
	}
	return r
}

// ready returns what the probe found.
func (b *Backend) ready(ctx context.Context) (*host, error) {
	r := b.Probe(ctx)
	b.mu.Lock()
	h := b.host
	b.mu.Unlock()
	if a, ok := r.Has(api.CapStart); !ok || h == nil {
		return nil, api.Errorf(api.KindUnisolated, "this host cannot start virtual machines: %s", a.Reason).WithHint("%s", a.Fix)
	}
	return h, nil
}
