package wasm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"hortus.dev/api"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/backend/marked"
	"hortus.dev/internal/backend/wasm/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
)

// Config configures the backend.
type Config struct {
	// Dir contains the directories of the machines.
	Dir string
	// Modules is the directory of installed interpreters and of the cache of compiled ones; see
	// [Install].
	Modules string
	Logger  *slog.Logger
}

// Backend runs WebAssembly modules.
type Backend struct {
	sandbox.Unsupported
	cfg Config
	log *slog.Logger
	// self is this executable, which is the guest and the process of a command too: its main
	// function calls guest.Main and run.Main by the name that it is executed with.
	self *os.File
}

// name is the name of the backend.
const name = "wasm"

// New makes a backend and its directories.
func New(cfg Config) (*Backend, error) {
	b := &Backend{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))}
	for _, dir := range []string{cfg.Dir, b.cache()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, api.Errorf(api.KindInternal, "wasm backend: %w", err)
		}
	}
	var err error
	if b.self, err = os.Open("/proc/self/exe"); err != nil {
		return nil, api.Errorf(api.KindInternal, "wasm backend: %w", err)
	}
	return b, nil
}

// Close releases the executable. The machines must have ended.
func (b *Backend) Close() error { return b.self.Close() }

// Name implements sandbox.Backend.
func (b *Backend) Name() string { return name }

// Capabilities implements sandbox.Backend.
func (b *Backend) Capabilities() sandbox.Capabilities { return sandbox.Capabilities{Prepare: true} }

func (b *Backend) cache() string               { return filepath.Join(b.cfg.Modules, "cache") }
func (b *Backend) dir(id api.SandboxID) string { return filepath.Join(b.cfg.Dir, string(id)) }
func (b *Backend) unsupported(format string, args ...any) error {
	return api.Errorf(api.KindUnsupported, format, args...).WithHint("use --isolation container")
}

// minMemory is the least memory limit, in bytes: an interpreter does not run with less.
const minMemory = 64 << 20

// Validate implements sandbox.Backend.
func (b *Backend) Validate(_ context.Context, spec sandbox.Spec) error {
	switch {
	case spec.Egress.Host:
		return b.unsupported("wasm sandboxes have no network: a module has no sockets")
	case spec.Workspace != nil:
		return b.unsupported("wasm sandboxes cannot mount a workspace (capability %s)", api.CapWorkspace)
	case len(spec.Layers) > 0 || spec.Template != "" && spec.Template != api.HostTemplate:
		return b.unsupported("wasm sandboxes have no root file system, so they cannot start from template %.64q (capability %s)", spec.Template, api.CapPrograms)
	case spec.Asked.CPUs:
		return b.unsupported("the wasm backend cannot limit cpus (capability %s)", api.CapLimitCPU)
	case spec.Asked.DiskRate:
		return b.unsupported("the wasm backend cannot limit the disk write rate (capability %s)", api.CapLimitDiskRate)
	case spec.Limits.MemoryBytes < minMemory:
		return api.Errorf(api.KindInvalid, "memory limit of %d bytes is below the minimum of wasm sandboxes, %d", spec.Limits.MemoryBytes, minMemory)
	}
	return nil
}

// Start implements sandbox.Backend.
func (b *Backend) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	m, err := b.boot(ctx, spec, false)
	if err != nil {
		return nil, err
	}
	if err := m.Claim(ctx, nil); err != nil {
		return nil, errors.Join(err, m.discard(ctx))
	}
	return m, nil
}

// Prepare implements sandbox.Backend.
func (b *Backend) Prepare(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	if len(spec.Env) > 0 {
		return nil, api.Errorf(api.KindInvalid, "a prepared guest gets its environment when it is claimed")
	}
	m, err := b.boot(ctx, spec, true)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// boot starts a guest that waits for its claim.
func (b *Backend) boot(ctx context.Context, spec sandbox.Spec, waits bool) (_ *machine, err error) {
	if !spec.ID.Valid() {
		return nil, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", spec.ID)
	}
	if err := b.Validate(ctx, spec); err != nil {
		return nil, err
	}
	dir := b.dir(spec.ID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "sandbox %s: %w", spec.ID, err)
	}
	cmd, control, err := b.spawn(spec, dir)
	if err != nil {
		return nil, errors.Join(api.Errorf(api.KindInternal, "start the guest of sandbox %s: %w", spec.ID, err), os.RemoveAll(dir))
	}
	m := newMachine(spec, dir, cmd, control)
	if err := m.configure(ctx, b.config(spec, waits)); err != nil {
		return nil, errors.Join(err, m.discard(ctx))
	}
	return m, nil
}

// config is the configuration of the guest.
func (b *Backend) config(spec sandbox.Spec, waits bool) birth.Config {
	self := birth.Identity{Name: "user", UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: "/home/user"}
	return birth.Config{
		Sandbox: string(spec.ID), Hostname: spec.Hostname, Identities: []birth.Identity{self},
		WhyNot:    map[string]string{"root": "wasm sandboxes have no users: commands run as user"},
		Workspace: "/workspace", Path: "/workspace", Env: spec.Env, OutputBuffer: 1 << 20, Waits: waits,
	}
}

// spawn executes the guest with its two descriptors.
func (b *Backend) spawn(spec sandbox.Spec, dir string) (_ *exec.Cmd, _ *birth.Control, err error) {
	own := filepath.Join(dir, "cache")
	if err := os.Mkdir(own, 0o700); err != nil {
		return nil, nil, err
	}
	settings, err := json.Marshal(guest.Settings{
		Cache: b.cache(), OwnCache: own, Python: b.python(),
		Disk: spec.Limits.DiskBytes, Memory: spec.Limits.MemoryBytes, Processes: spec.Limits.Processes,
	})
	if err != nil {
		return nil, nil, err
	}
	listener, err := link.ListenFile(dir, "s")
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	control, theirs, err := birth.Pair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		control.Close()
		return nil, nil, err
	}
	defer null.Close()
	program, err := birth.Program(b.self, null, listener, theirs)
	if err != nil {
		control.Close()
		return nil, nil, err
	}
	defer program.Close()
	cmd := exec.Command(program.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = null, null, null
	cmd.Args = []string{guest.Argv0, string(settings)}
	cmd.Env = []string{marked.Variable + "=" + string(spec.ID)}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{birth.ListenFD - 3: listener, birth.ControlFD - 3: theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		control.Close()
		return nil, nil, err
	}
	return cmd, control, nil
}

// Reclaim implements sandbox.Backend.
func (b *Backend) Reclaim(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	return marked.Reclaim(ctx, b.cfg.Dir, id)
}

// Orphans implements sandbox.Backend. It lists the sandboxes that have a directory.
func (b *Backend) Orphans(context.Context) ([]api.SandboxID, error) {
	return marked.Directories(b.cfg.Dir)
}

var _ sandbox.Backend = (*Backend)(nil)
