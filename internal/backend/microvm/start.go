package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/backend/jail/workdir"
	"hortus.dev/internal/backend/leased"
	"hortus.dev/internal/backend/microvm/inside"
	"hortus.dev/internal/backend/microvm/qemu"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/sandbox"
)

// Start implements sandbox.Backend.
func (b *Backend) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	w, err := b.boot(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := w.Claim(ctx, nil); err != nil {
		w.Kill(context.WithoutCancel(ctx))
		return nil, err
	}
	return w.machine, nil
}

// Prepare implements sandbox.Backend.
func (b *Backend) Prepare(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	spec.Env = nil
	w, err := b.boot(ctx, spec)
	if err != nil {
		return nil, err // without a type
	}
	return w, nil
}

// boot starts a guest until it waits for its claim. After an error nothing is left.
func (b *Backend) boot(ctx context.Context, spec sandbox.Spec) (*waiting, error) {
	m, err := b.make(ctx, spec, func(ctx context.Context, m *machine) error {
		f, err := os.OpenFile(filepath.Join(m.dir, diskFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		m.disks = append(m.disks, qemu.Disk{File: f, Serial: inside.UpperDisk})
		return m.host.format(ctx, f, spec.Limits.DiskBytes, workdir.Inodes(spec.Limits.DiskBytes))
	})
	if err != nil {
		return nil, err
	}
	err = m.greet(ctx)
	if err == nil {
		err = m.configure(ctx, spec)
	}
	if err != nil {
		return nil, m.failed(ctx, err)
	}
	return &waiting{machine: m, claim: m.claimNew}, nil
}

// make starts the QEMU of a sandbox. prepare adds the disk to write to, and what is special.
func (b *Backend) make(ctx context.Context, spec sandbox.Spec, prepare func(context.Context, *machine) error) (_ *machine, err error) {
	if !spec.ID.Valid() {
		return nil, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(spec.ID))
	}
	if err := b.Validate(ctx, spec); err != nil {
		return nil, err
	}
	h, err := b.ready(ctx)
	if err != nil {
		return nil, err
	}
	r, err := leased.Lease(b.cfg.Layers, spec.Layers)
	if err != nil {
		return nil, err
	}
	dir := b.rundir(spec.ID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		r.Release()
		if errors.Is(err, os.ErrExist) {
			return nil, api.Errorf(api.KindExists, "sandbox %s already exists", spec.ID)
		}
		return nil, api.Errorf(api.KindInternal, "run directory: %w", err)
	}
	m := newMachine(b, spec, r)
	m.vessel = &vessel{b: b, dir: dir, host: h, memory: h.ram(spec.Limits.MemoryBytes), processors: processors(spec.Limits)}
	m.limits = cgroup.Limits{MemoryBytes: m.memory + qemuMemory, CPUs: spec.Limits.CPUs}
	images, err := b.images(ctx, r)
	for i, f := range images {
		m.disks = append(m.disks, qemu.Disk{File: f, Serial: inside.LayerDisk + strconv.Itoa(i), ReadOnly: true})
	}
	if err == nil {
		err = prepare(ctx, m)
	}
	if err == nil {
		err = m.start(ctx)
	}
	if err == nil {
		err = m.record()
	}
	if err == nil {
		m.watch, err = proc.Open(m.vessel.id.PID)
	}
	for _, d := range m.disks { // QEMU has its own
		d.File.Close()
	}
	if err != nil {
		return nil, m.failed(ctx, err)
	}
	m.run()
	return m, nil
}

// processors returns the number of processors of a machine.
func processors(l api.Limits) int {
	if l.CPUs == 0 {
		return runtime.NumCPU()
	}
	return max(1, min(int(math.Ceil(l.CPUs)), runtime.NumCPU()))
}

// consoleTimeout is the maximum wait for what the kernel of a machine that did not start has printed.
const consoleTimeout = 2 * time.Second

// failed destroys a machine that could not be started, and returns why.
func (m *machine) failed(ctx context.Context, err error) error {
	console := ""
	if m.control != nil && !errors.Is(ctx.Err(), context.Canceled) {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), consoleTimeout)
		if text, cerr := m.control.Console(short); cerr == nil && strings.TrimSpace(text) != "" {
			console = fmt.Sprintf("; its console ends with %.500q", text[max(0, len(text)-500):])
		}
		cancel()
	}
	m.destroy(context.WithoutCancel(ctx))
	var e *api.Error
	switch cause := ctx.Err(); {
	case cause != nil:
		return api.Errorf(api.KindOf(cause), "timeout: sandbox %s did not start: %w%s", m.id, cause, console)
	case errors.As(err, &e):
		return err
	}
	return api.Errorf(api.KindInternal, "sandbox %s: the machine did not start: %w%s", m.id, err, console)
}

// greet connects the link.
func (m *machine) greet(ctx context.Context) error {
	mux, err := m.dial(ctx)
	if err != nil {
		return err
	}
	m.attach(mux)
	return nil
}

// configure sends the plan, and waits until the guest is ready.
func (m *machine) configure(ctx context.Context, spec sandbox.Spec) error {
	plan, err := json.Marshal(inside.Plan{Layers: len(spec.Layers), ShmBytes: min(spec.Limits.MemoryBytes, spec.Limits.DiskBytes), Config: guestConfig(spec, m.root)})
	if err == nil && len(plan) > birth.MaxPacket {
		err = fmt.Errorf("its configuration has %d bytes, the maximum is %d", len(plan), birth.MaxPacket)
	}
	if err != nil {
		return api.Errorf(api.KindInvalid, "sandbox %s: %w", spec.ID, err).WithHint("Use a smaller environment.")
	}
	if err := m.mux.Send(ctx, plan); err != nil {
		return err
	}
	r, err := m.await(ctx)
	if err == nil && !r.Ready {
		err = fmt.Errorf("%.200q: %.500q", r.Stage, r.Error)
	}
	return err
}

// guestConfig configures the guest.
func guestConfig(spec sandbox.Spec, r *leased.Layers) birth.Config {
	return birth.Config{
		Sandbox: string(spec.ID), Hostname: spec.Hostname, Workspace: "/workspace", Path: r.Path(), Dir: r.Dir(), Env: r.Env(spec.Env),
		OutputBuffer: launch.OutputBuffer, PID1: true, Capture: true, Switch: true, Waits: true, Default: launch.Default(spec),
		Identities: launch.Identities(r.Settings), Processes: spec.Limits.Processes, Memory: spec.Limits.MemoryBytes, CPUs: spec.Limits.CPUs,
		OwnKernel: true, Own: launch.OwnDirs(), Files: launch.OwnFiles(spec),
	}
}
