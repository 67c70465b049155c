package microvm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/microvm/kernel"
	"hortus.dev/internal/backend/microvm/qemu"
	"hortus.dev/internal/backend/serial"
	"hortus.dev/internal/sandbox"
)

const kvmDevice = "/dev/kvm"

// host is what a host has for machines.
type host struct {
	qemu        string
	version     string // of QEMU
	formatter   string // mke2fs
	kernel      kernel.Kernel
	guest       string // digest of the guest's executable
	guestBytes  int64
	noKVM       string // why this host has no KVM; empty if a boot may prove it
	groups      []int  // that may use KVM
	accelerator string // that a boot proved
}

// Probe implements sandbox.Backend. If this host has every part it boots a machine: that a device of KVM exists proves nothing. The
// result of the boot is kept; what was missing may be installed before the next call.
func (b *Backend) Probe(ctx context.Context) api.BackendReport {
	unlock, err := b.making.Lock(ctx, "report")
	if err != nil {
		return b.describe(nil, api.Ability{Capability: api.CapStart, Reason: err.Error()})
	}
	defer unlock()
	b.mu.Lock()
	have := b.report
	b.mu.Unlock()
	if have != nil {
		return *have
	}
	h, start := b.inspect(ctx)
	booted := start.OK
	if booted {
		start = b.prove(ctx, h)
	}
	r := b.describe(h, start)
	if booted && ctx.Err() == nil { // a boot that was interrupted proves nothing
		b.mu.Lock()
		b.report, b.host = &r, h
		b.mu.Unlock()
	}
	return r
}

// inspect finds out whether this host has every part of a machine. It starts none.
func (b *Backend) inspect(ctx context.Context) (*host, api.Ability) {
	a := api.Ability{Capability: api.CapStart}
	no := func(fix, format string, args ...any) (*host, api.Ability) {
		a.Reason, a.Fix = fmt.Sprintf(format, args...), fix
		return nil, a
	}
	if runtime.GOARCH != "amd64" {
		return no("", "the microvm backend starts machines with x86-64 processors only")
	}
	if m := b.cfg.Missing; m.Reason != "" {
		return no(m.Fix, "%s", m.Reason)
	}
	const noQEMU = "apt-get install qemu-system-x86"
	h := &host{}
	var err error
	if h.qemu, err = exec.LookPath(cmp.Or(b.cfg.QEMU, "qemu-system-x86_64")); err != nil {
		return no(noQEMU, "QEMU is not installed: %v", err)
	}
	if h.kernel, err = kernel.Open(b.cfg.Kernel); err != nil {
		return no(api.HintOf(err), "%v", err)
	}
	if h.formatter, err = findFormatter(); err != nil {
		return no("apt-get install e2fsprogs", "mke2fs, which formats the disks of machines, is not installed: %v", err)
	}
	var fix string
	if h.noKVM, fix = b.findKVM(h); h.noKVM != "" && !b.cfg.Emulate {
		return no(cmp.Or(fix, noEmulation), "%s", h.noKVM)
	}
	if h.version, err = versionOf(ctx, h.qemu); err != nil {
		return no(noQEMU, "QEMU does not run: %v", err)
	}
	if h.guest, h.guestBytes, err = digestOf(b.cfg.Guest); err != nil {
		return no("", "the guest's executable cannot be read: %v", err)
	}
	a.OK = true
	return h, a
}

const noEmulation = "use a host with KVM, or, for tests, set microvm.emulate = true: QEMU then emulates the processor, which is many times slower"

// prove boots a machine, with KVM if that may be possible, else under emulation if the configuration allows it.
func (b *Backend) prove(ctx context.Context, h *host) api.Ability {
	a := api.Ability{Capability: api.CapStart}
	if h.noKVM == "" {
		h.accelerator = qemu.KVM
		err := b.try(ctx, h, b.cfg.ProbeTimeout)
		if err == nil {
			a.OK, a.Reason = true, fmt.Sprintf("QEMU %s with KVM, kernel %s", h.version, h.kernel.Release)
			return a
		}
		h.noKVM = fmt.Sprintf("%s exists, but a machine does not run with it: %v", b.kvm, err)
		if !b.cfg.Emulate {
			a.Reason, a.Fix = h.noKVM, noEmulation
			return a
		}
	}
	h.accelerator = qemu.Emulation
	if err := b.try(ctx, h, emulationTimeout); err != nil {
		a.Reason = fmt.Sprintf("%s, and under emulation: %v", h.noKVM, err)
		return a
	}
	a.OK, a.Reason = true, fmt.Sprintf("QEMU %s emulates the processor, which is slow: %s; kernel %s", h.version, h.noKVM, h.kernel.Release)
	return a
}

// digestOf returns the SHA-256 and the size of a file.
func digestOf(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), n, err
}

// emulationTimeout is the maximum time of a boot under emulation.
const emulationTimeout = 2 * time.Minute

// findKVM returns why the device of KVM cannot be used, and a command that changes that, if there is one.
func (b *Backend) findKVM(h *host) (why, fix string) {
	var st unix.Stat_t
	if err := unix.Stat(b.kvm, &st); err != nil {
		return fmt.Sprintf("this host has no KVM: %v", err), ""
	}
	if b.ids == nil {
		f, err := os.OpenFile(b.kvm, os.O_RDWR, 0)
		if err != nil {
			return "this user may not use KVM: " + err.Error(), "as root: usermod --append --groups kvm USER; then log in again"
		}
		f.Close()
		return "", ""
	}
	switch {
	case st.Mode&0o006 == 0o006:
	case st.Mode&0o060 == 0o060 && st.Gid != 0:
		h.groups = []int{int(st.Gid)}
	default:
		return b.kvm + " may be used by root only, as which no machine runs", fmt.Sprintf("chgrp kvm %s && chmod 0660 %[1]s", b.kvm)
	}
	return "", ""
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
	v := &vessel{b: b, dir: dir, host: h, memory: h.ram(64 << 20), processors: 1}
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
		yes(api.CapLimitDisk, "the size of the machine's disk, and that of /dev/shm, which counts as memory too"),
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
	return sandbox.Report(b.Name(), start, all)
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
