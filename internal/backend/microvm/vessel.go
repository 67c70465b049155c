package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/backend/microvm/inside"
	"hortus.dev/internal/backend/microvm/qemu"
	"hortus.dev/internal/backend/serial"
	"hortus.dev/internal/platform/proc"
)

const (
	// kernelMemory is the memory of a machine beyond the limit of memory, for its kernel, and qemuMemory that of QEMU.
	kernelMemory = 96 << 20
	qemuMemory   = 192 << 20
	// pageStructs is which part of its memory a kernel has to describe it.
	pageStructs = 60
	// smallGuest is the size of a guest that kernelMemory includes, in bytes. A build that does not embed the small guest
	// has a much larger one.
	smallGuest = 8 << 20
	// pageSize is that of the memory of a machine.
	pageSize = 2 << 20
)

// The files of a run directory.
const (
	linkSocket    = "s"
	controlSocket = "c"
	diskFile      = "disk"
	recordFile    = "machine.json"
	heldFile      = "held" // a save holds the machine
)

// vessel is a machine as the host sees it: QEMU, its control group, its user, and its files.
type vessel struct {
	b          *Backend
	dir        string
	host       *host
	memory     int64
	processors int
	limits     cgroup.Limits
	disks      []qemu.Disk
	// from is the memory that is mapped privately; nil for new memory.
	from *os.File
	// incoming is true if the machine waits for a saved state.
	incoming bool

	group   *cgroup.Group
	ids     *ids.Range
	ram     *os.File // memory of its own; nil for from
	process *qemu.Process
	id      proc.ID
	control *qemu.Client
}

// record is what the next daemon needs to know of a machine.
type record struct {
	PID   proc.ID      `json:"pid"`
	Range int          `json:"range"`
	Group cgroup.Where `json:"group"`
	// Private says that the memory is that of a snapshot, mapped privately.
	Private bool            `json:"private,omitempty"`
	Spec    json.RawMessage `json:"spec"`
}

// start starts QEMU, and connects its control socket.
func (v *vessel) start(ctx context.Context) (err error) {
	b := v.b
	m := qemu.Machine{
		Program: v.host.qemu, Accelerator: v.host.accelerator, Command: command(v.host.accelerator), CPUs: v.processors,
		MemoryBytes: v.memory, Private: v.from != nil, Incoming: v.incoming, Disks: v.disks, PortName: inside.PortName, Groups: v.host.groups, Namespaces: b.ids != nil,
	}
	if m.Kernel, err = os.Open(v.host.kernel.Image); err != nil {
		return err
	}
	defer m.Kernel.Close()
	if m.Initramfs, err = b.initramfs(ctx, v.host); err != nil {
		return err
	}
	defer m.Initramfs.Close()
	if m.Link, err = link.ListenFile(v.dir, linkSocket); err != nil {
		return err
	}
	defer m.Link.Close()
	if m.Control, err = link.ListenFile(v.dir, controlSocket); err != nil {
		return err
	}
	defer m.Control.Close()
	if b.ids != nil {
		if v.ids, err = b.ids.Get(); err != nil {
			return err
		}
		m.User = v.ids.Base
	}
	if v.from == nil && v.ram == nil {
		if v.ram, err = newMemory(v.memory); err != nil {
			return err
		}
	}
	if m.Memory = v.from; v.from == nil {
		m.Memory = v.ram
	}
	stderr, said, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stderr.Close()
	m.Stderr = said
	if v.group, err = b.cgroups.Create(filepath.Base(v.dir), v.limits); err != nil {
		said.Close()
		return err
	}
	seat, err := v.group.Seat()
	if err == nil {
		v.process, err = qemu.Start(m, seat.Take)
		seat.Close()
	}
	said.Close()
	m.Link.Close() // connections end if QEMU does
	m.Control.Close()
	if err != nil {
		return err
	}
	if v.id, err = proc.Identify(v.process.PID()); err == nil && v.ids != nil {
		err = v.ids.Record(v.id)
	}
	if err == nil {
		err = v.connect(ctx)
	}
	if err != nil && ctx.Err() == nil { // it ends, or has ended: its last words
		text := make([]byte, 1<<10)
		stderr.SetReadDeadline(time.Now().Add(time.Second))
		n, _ := stderr.Read(text)
		err = fmt.Errorf("%w; QEMU printed %q", err, strings.TrimSpace(string(text[:n])))
	}
	return err
}

// connect connects the control socket.
func (v *vessel) connect(ctx context.Context) error {
	c, err := link.Connect(ctx, filepath.Join(v.dir, controlSocket))
	if err != nil {
		return err
	}
	v.control, err = qemu.Connect(ctx, c)
	return err
}

// dial connects the link, and waits until the machine answers.
func (v *vessel) dial(ctx context.Context) (*serial.Mux, error) {
	c, err := link.Connect(ctx, filepath.Join(v.dir, linkSocket))
	if err != nil {
		return nil, err
	}
	return serial.Dial(ctx, c, serial.Config{})
}

// free ends QEMU and frees everything but the directory.
func (v *vessel) free() {
	if v.control != nil {
		v.control.Close()
	}
	if v.process != nil {
		v.process.Kill()
		v.process.Wait()
	}
	v.release()
}

// release frees what an ended QEMU had.
func (v *vessel) release() {
	if v.ram != nil {
		v.ram.Close()
	}
	if v.group != nil {
		if err := v.group.Remove(groupWait); err != nil {
			v.b.log.Error("cannot remove the control group of a machine", "error", err)
		}
	}
	if v.ids != nil {
		v.b.ids.Put(v.ids)
	}
}

const groupWait = 5 * time.Second

// newMemory makes the memory of a machine. Its pages are those of this host that are written.
func newMemory(size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("hortus-vm", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "memory")
	// QEMU opens it again.
	if err := errors.Join(f.Chmod(0o666), f.Truncate(size)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// command is that of the kernel.
func command(accelerator string) string {
	c := "console=ttyS0 quiet loglevel=3 panic=-1 reboot=t rdinit=" + inside.Argv0 + " random.trust_cpu=on i8042.noaux i8042.nokbd raid=noautodetect cryptomgr.notests"
	if accelerator == qemu.Emulation {
		c += " mitigations=off tsc=reliable no_timer_check"
	}
	return c
}

// write writes the record.
func (r *record) write(dir string) error {
	b, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, recordFile), b, 0o600)
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "record a machine: %w", err)
	}
	return nil
}

// ram returns the size of the memory of a machine with a limit of memory: its kernel has the initial file system twice
// while it unpacks it.
func (h *host) ram(limit int64) int64 {
	n := limit + limit/pageStructs + kernelMemory + max(0, 2*(h.guestBytes-smallGuest))
	return n + (pageSize-n%pageSize)%pageSize
}
