package microvm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/backend/microvm/inside"
	"hortus.dev/internal/backend/microvm/qemu"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/platform/processor"
	"hortus.dev/internal/platform/sparse"
	"hortus.dev/internal/sandbox"
)

// The files of a saved state.
const (
	savedMemory  = "memory"  // of the machine; missing if it is part of the devices
	savedDevices = "devices" // of QEMU
	savedDisk    = "disk"
	savedRecord  = "saved.json"
)

// state describes a saved state.
type state struct {
	// All says that the devices' file has the memory too: the machine had it privately.
	All bool `json:"all,omitempty"`
	// Copy says that a restored machine copies the memory at its start.
	Copy bool `json:"copy,omitempty"`
	// Limits are those that a restored sandbox must have, Layers the number of disks.
	MemoryBytes int64  `json:"memoryBytes"`
	DiskBytes   int64  `json:"diskBytes"`
	Layers      int    `json:"layers"`
	Processors  int    `json:"processors"`
	Hostname    string `json:"hostname"`
}

// Mark implements sandbox.Backend.
func (b *Backend) Mark(ctx context.Context, kind api.SnapshotKind) (api.ImageMark, error) {
	if kind != api.SnapshotMemory {
		return api.ImageMark{}, api.Errorf(api.KindUnsupported, "the microvm backend supports memory snapshots only, not of kind %q", kind)
	}
	h, err := b.ready(ctx)
	if err != nil {
		return api.ImageMark{}, err
	}
	m := api.ImageMark{Backend: b.Name(), Kernel: fmt.Sprintf("%s-%s-qemu-%s-%s", h.kernel.Release, h.kernel.Digest[:16], h.version, h.accelerator), Guest: h.guest}
	if h.accelerator == qemu.KVM {
		m.CPU = processor.Features()
	}
	return m, nil
}

// Save implements sandbox.Machine.
func (m *machine) Save(ctx context.Context, dir string, o sandbox.SaveOptions) (s sandbox.Saved, err error) {
	if o.Files && o.CopyMemory {
		return s, api.Errorf(api.KindInvalid, "a save of files only copies no memory")
	}
	if o.Files {
		return s, api.Errorf(api.KindUnsupported, "the microvm backend saves files with memory only").WithHint("Save its memory too.")
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	if err := m.alive(); err != nil {
		return s, err
	}
	if m.held {
		return s, api.Errorf(api.KindConflict, "a save holds sandbox %s", m.id)
	}
	if m.paused { // it resumes after a save
		if err := m.control.Continue(ctx); err != nil {
			return s, m.controlError(ctx, "save", err)
		}
		m.paused = false
		m.link.Pause(false)
	}
	if s.Mark, err = m.b.Mark(ctx, api.SnapshotMemory); err != nil {
		return s, err
	}
	s.Kind = api.SnapshotMemory
	began := time.Now()
	if cerr := ctx.Err(); cerr != nil {
		return s, m.controlError(ctx, "save", cerr)
	}
	// A command that is cut would leave the link and the control socket of no use. Between commands the context is looked at.
	steady, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := m.quiet(steady); err != nil {
		m.goOn(context.WithoutCancel(ctx))
		return s, m.controlError(ctx, "save", err)
	}
	if o.Hold {
		err = os.WriteFile(filepath.Join(m.dir, heldFile), nil, 0o600)
	}
	if err == nil {
		err = m.control.Stop(steady)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = m.write(ctx, steady, dir, o)
	}
	if err == nil && o.Standstill != nil {
		err = o.Standstill(ctx)
	}
	m.held = err == nil && o.Hold
	if m.held {
		m.link.Pause(true)
	} else if gerr := m.unhold(context.WithoutCancel(ctx)); err == nil {
		err = gerr
	}
	s.Paused = time.Since(began)
	s.Memory = api.MemoryShared
	switch {
	case o.CopyMemory:
		s.Memory = api.MemoryCopied
	case m.from != nil:
		s.Memory, s.MemoryWhy = api.MemoryCopied, "the memory of a restored machine is not in a file of its own"
	}
	var e *api.Error
	switch {
	case err == nil || errors.As(err, &e):
	case errors.Is(err, unix.ENOSPC) || strings.Contains(err.Error(), "No space left on device"): // QEMU's words
		err = api.Errorf(api.KindExhausted, "save sandbox %s: no space left on the disk of %s", m.id, dir).WithHint("free disk space: hortus gc, hortus snapshot rm ID; hortus df shows the usage")
	default:
		err = m.controlError(ctx, "save", err)
	}
	return s, err
}

// saveTimeout is the maximum time of the commands of a save, without its copies of files.
const saveTimeout = 2 * time.Minute

// quiet makes the guest end its streams.
func (m *machine) quiet(ctx context.Context) error {
	m.drain()
	if err := m.mux.Send(ctx, []byte(birth.QuietPacket)); err != nil {
		return err
	}
	r, err := m.await(ctx)
	if err == nil && !r.Quiet {
		err = fmt.Errorf("the guest did not quiesce: %.200q", r.Error)
	}
	return err
}

// drain drops reports that nobody waits for.
func (m *machine) drain() {
	for {
		select {
		case <-m.reports:
		default:
			return
		}
	}
}

// goOn makes the guest serve again.
func (m *machine) goOn(ctx context.Context) error { return m.mux.Send(ctx, []byte(birth.OnPacket)) }

// unhold resumes a machine that a save stopped.
func (m *machine) unhold(ctx context.Context) error {
	if err := m.control.Continue(ctx); err != nil {
		return m.controlError(ctx, "resume", err)
	}
	if err := os.Remove(filepath.Join(m.dir, heldFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return api.Errorf(api.KindInternal, "resume sandbox %s: %w", m.id, err)
	}
	if err := m.goOn(ctx); err != nil {
		return m.controlError(ctx, "resume", err)
	}
	return nil
}

// Release implements sandbox.Machine.
func (m *machine) Release(ctx context.Context) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	if !m.held {
		return nil
	}
	if err := m.alive(); err != nil {
		return err
	}
	if err := m.unhold(ctx); err != nil {
		return err
	}
	m.held = false
	m.link.Pause(false)
	return nil
}

// write writes the state of a stopped machine. steady is for the command of QEMU.
func (m *machine) write(ctx, steady context.Context, dir string, o sandbox.SaveOptions) error {
	st := state{All: m.from != nil, Copy: o.CopyMemory, MemoryBytes: m.spec.Limits.MemoryBytes, DiskBytes: m.spec.Limits.DiskBytes,
		Layers: len(m.spec.Layers), Processors: processors(m.spec.Limits), Hostname: m.spec.Hostname}
	text, err := json.Marshal(st)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, savedRecord), text, 0o600); err != nil {
		return err
	}
	// First, because QEMU writes what it still has of the disk before it answers.
	f, err := os.OpenFile(filepath.Join(dir, savedDevices), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = m.control.Save(steady, f, st.All)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	disk, err := os.Open(filepath.Join(m.dir, diskFile))
	if err != nil {
		return err
	}
	defer disk.Close()
	if err := copyFile(ctx, filepath.Join(dir, savedDisk), disk); err != nil {
		return err
	}
	if st.All {
		return nil
	}
	return copyFile(ctx, filepath.Join(dir, savedMemory), m.ram)
}

// copyFile copies a file to a path at which there is none.
func copyFile(ctx context.Context, to string, from *os.File) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(sparse.CopyFile(ctx, f, from), f.Close())
}

// Restore implements sandbox.Backend.
func (b *Backend) Restore(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Machine, error) {
	st, err := readState(dir)
	if err != nil {
		return nil, err
	}
	if st.MemoryBytes != spec.Limits.MemoryBytes || st.DiskBytes != spec.Limits.DiskBytes || st.Layers != len(spec.Layers) {
		return nil, api.Errorf(api.KindInvalid, "a saved sandbox keeps its layers and its limits of memory and disk")
	}
	var devices *os.File
	m, err := b.make(ctx, spec, func(ctx context.Context, m *machine) (err error) {
		m.processors = st.Processors
		if devices, err = os.Open(filepath.Join(dir, savedDevices)); err != nil {
			return err
		}
		from, err := os.Open(filepath.Join(dir, savedDisk))
		if err != nil {
			return err
		}
		defer from.Close()
		path := filepath.Join(m.dir, diskFile)
		if err := copyFile(ctx, path, from); err != nil {
			return err
		}
		disk, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		m.disks = append(m.disks, qemu.Disk{File: disk, Serial: inside.UpperDisk})
		return m.openMemory(ctx, dir, st)
	})
	if devices != nil {
		defer devices.Close()
	}
	if err != nil {
		return nil, err
	}
	if err := m.control.Restore(ctx, devices, st.All); err != nil {
		if ctx.Err() == nil {
			err = api.Errorf(api.KindConflict, "restore sandbox %s: %w", spec.ID, err)
		}
		return nil, m.failed(ctx, err)
	}
	m.link.Pause(true)
	return &waiting{machine: m, claim: m.claimRestored(st)}, nil
}

// openMemory opens the memory of a machine that is restored.
func (m *machine) openMemory(ctx context.Context, dir string, st state) (err error) {
	m.incoming = true
	if st.All {
		return nil // it is read with the devices
	}
	from, err := os.OpenFile(filepath.Join(dir, savedMemory), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	fi, err := from.Stat()
	if err == nil && fi.Size() != m.memory {
		err = api.Errorf(api.KindConflict, "the memory of the saved sandbox has %d bytes, not %d", fi.Size(), m.memory)
	}
	if err == nil && st.Copy {
		if m.ram, err = newMemory(m.memory); err == nil {
			err = sparse.CopyFile(ctx, m.ram, from)
		}
		from.Close()
		return err
	}
	if err == nil && fi.Mode().Perm() != 0o666 {
		// QEMU opens it again, as its own user. The directory protects it.
		err = from.Chmod(0o666)
	}
	m.from = from
	return err
}

// claimRestored gives a restored guest its identity, and starts it.
func (m *machine) claimRestored(st state) func(context.Context, map[string]string) error {
	return func(ctx context.Context, env map[string]string) error {
		if len(env) == 0 {
			env = m.spec.Env
		}
		seed, nonce := make([]byte, 32), make([]byte, 16)
		rand.Read(seed)
		rand.Read(nonce)
		self := birth.Self{Sandbox: string(m.id), Hostname: m.spec.Hostname, Template: launch.TemplateID(m.spec), Env: m.root.Env(env),
			Default: launch.Default(m.spec), Seed: seed, Nonce: hex.EncodeToString(nonce)}
		text, err := json.Marshal(self)
		if err == nil && len(text) > birth.MaxPacket-len(birth.SelfPacket) {
			err = api.Errorf(api.KindInvalid, "sandbox %s: its environment is too large", m.id)
		}
		if err == nil {
			err = m.control.Continue(ctx)
		}
		if err == nil {
			err = m.greet(ctx)
		}
		if err == nil {
			err = m.mux.Send(ctx, append([]byte(birth.SelfPacket), text...))
		}
		for err == nil {
			var r birth.Report
			if r, err = m.await(ctx); err != nil || r.Nonce != self.Nonce {
				continue // of before the save
			}
			if !r.Ready {
				err = fmt.Errorf("the guest could not become another sandbox: %.200q: %.500q", r.Stage, r.Error)
				break
			}
			m.link.Pause(false)
			return nil
		}
		return err
	}
}

// readState reads and checks the record of a saved state.
func readState(dir string) (st state, err error) {
	text, err := os.ReadFile(filepath.Join(dir, savedRecord))
	if err == nil {
		err = json.Unmarshal(text, &st)
	}
	if err == nil && (st.MemoryBytes <= 0 || st.Processors < 1 || st.Processors > 1024) {
		err = errors.New("its record does not make sense")
	}
	if err != nil {
		return st, api.Errorf(api.KindConflict, "the saved state is not that of a virtual machine: %w", err)
	}
	return st, nil
}
