package process

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"hortus.dev/api"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/backend/marked"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
)

// Config configures the backend.
type Config struct {
	// Dir contains the directories of the machines.
	Dir string
	// Guest is the guest's executable. The backend does not close it.
	Guest *os.File
	// Path is the PATH of commands; relative entries are removed.
	Path   string
	Logger *slog.Logger
}

// Backend runs guests as ordinary processes.
type Backend struct {
	sandbox.Unsupported
	cfg  Config
	log  *slog.Logger
	path string
}

// New makes a backend and its directory.
func New(cfg Config) (*Backend, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "process backend: %w", err)
	}
	b := &Backend{cfg: cfg, log: cfg.Logger}
	b.log = cmp.Or(b.log, slog.New(slog.DiscardHandler))
	var dirs []string
	for _, d := range filepath.SplitList(cfg.Path) {
		if filepath.IsAbs(d) {
			dirs = append(dirs, d)
		}
	}
	if b.path = strings.Join(dirs, ":"); b.path == "" {
		b.path = "/usr/local/bin:/usr/bin:/bin"
	}
	return b, nil
}

// Name implements sandbox.Backend.
func (b *Backend) Name() string { return "process" }

// Probe implements sandbox.Backend. There is nothing to try: the backend works on every host.
func (b *Backend) Probe(context.Context) api.BackendReport {
	const open = "commands are ordinary processes of this host"
	r := api.BackendReport{Backend: b.Name(), Abilities: []api.Ability{
		{Capability: api.CapStart, OK: true},
		{Capability: api.CapUserIdentity, OK: true, Reason: "commands run as the daemon's own user"},
		{Capability: api.CapLimitCPUTime, OK: true, Reason: "added up over live processes and the children that they reaped"},
		{Capability: api.CapLimitMemory, OK: true, Reason: "best effort: checked by the guest"},
		{Capability: api.CapLimitOutput, OK: true},
		{Capability: api.CapPrograms, OK: true},
	}}
	for c, why := range map[api.Capability]string{
		api.CapIsolated:      open + ": use it for trusted code only",
		api.CapRootIdentity:  "commands run as the daemon's own user",
		api.CapPause:         "the process backend uses no cgroup to freeze",
		api.CapLimitCPU:      "the process backend uses no cgroup to limit",
		api.CapLimitProcs:    "a limit would count all processes of this user",
		api.CapLimitDisk:     "files are written to the host's own file system",
		api.CapLimitDiskRate: "the process backend uses no cgroup to limit",
		api.CapPrivateFiles:  open,
		api.CapNoNetwork:     open,
		api.CapCheckpoint:    "ordinary processes cannot be saved",
		api.CapEgress:        open + ", which has its network",
		api.CapPool:          "the process backend boots no guests ahead",
		api.CapAdopt:         "commands end with the daemon",
		api.CapWorkspace:     "commands see the host's own file system: it cannot mount layers",
	} {
		a := api.Ability{Capability: c, Reason: why, Fix: "use --isolation container"}
		switch c {
		case api.CapEgress:
			a.Grade = api.EgressByNobody
		case api.CapCheckpoint:
			a.Fix = "use --isolation gvisor"
		case api.CapLimitDiskRate: // no backend has it
			a.Fix = ""
		}
		r.Abilities = append(r.Abilities, a)
	}
	return r
}

// Start implements sandbox.Backend.
func (b *Backend) Start(ctx context.Context, spec sandbox.Spec) (_ sandbox.Machine, err error) {
	if !spec.ID.Valid() {
		return nil, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", spec.ID)
	}
	if err := b.Validate(ctx, spec); err != nil {
		return nil, err
	}
	// Undo everything if a step fails.
	var undo []func()
	defer func() {
		if err == nil {
			return
		}
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}()
	dir := b.dir(spec.ID)
	undo = append(undo, func() { os.RemoveAll(dir) })
	for _, d := range []string{dir, filepath.Join(dir, "home"), filepath.Join(dir, "workspace"), filepath.Join(dir, "tmp")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, api.Errorf(api.KindInternal, "sandbox %s: %w", spec.ID, err)
		}
	}
	listener, err := link.ListenFile(dir, "s")
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "sandbox %s: %w", spec.ID, err)
	}
	defer listener.Close()
	control, theirs, err := birth.Pair()
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "sandbox %s: %w", spec.ID, err)
	}
	undo = append(undo, func() { control.Close() })
	cmd, err := b.spawn(spec.ID, dir, listener, theirs)
	theirs.Close()
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "start the guest of sandbox %s: %w", spec.ID, err)
	}
	m := newMachine(spec.ID, dir, cmd)
	undo = append(undo, func() {
		if _, kerr := m.Kill(context.WithoutCancel(ctx)); kerr != nil {
			b.log.Error("cannot clean up a failed start", "sandbox", spec.ID, "error", kerr)
		}
	})
	if err := m.configure(ctx, control, b.config(spec, dir)); err != nil {
		return nil, err
	}
	return m, nil
}

// Capabilities implements sandbox.Backend: none of the optional methods.
func (b *Backend) Capabilities() sandbox.Capabilities { return sandbox.Capabilities{} }

// Validate implements sandbox.Backend.
func (b *Backend) Validate(_ context.Context, spec sandbox.Spec) error {
	if !spec.Egress.Host {
		return api.Errorf(api.KindUnsupported, "the process backend cannot restrict the network of commands (capability %s)", api.CapNoNetwork).
			WithHint("use --isolation container")
	}
	if spec.Workspace != nil {
		return api.Errorf(api.KindUnsupported, "the process backend cannot mount layers (capability %s)", api.CapWorkspace).
			WithHint("use --isolation container")
	}
	for _, l := range []struct {
		asked bool
		name  string
	}{
		{spec.Asked.CPUs, "cpus"}, {spec.Asked.Processes, "processes"},
		{spec.Asked.Disk, "disk"}, {spec.Asked.DiskRate, "disk write rate"},
	} {
		if l.asked {
			return api.Errorf(api.KindUnsupported, "the process backend cannot limit %s", l.name).WithHint("use --isolation container")
		}
	}
	return nil
}

func (b *Backend) dir(id api.SandboxID) string { return filepath.Join(b.cfg.Dir, string(id)) }

// config is the configuration of the guest.
func (b *Backend) config(spec sandbox.Spec, dir string) birth.Config {
	env := map[string]string{"TMPDIR": filepath.Join(dir, "tmp")}
	for k, v := range spec.Env {
		env[k] = v
	}
	env[marked.Variable] = string(spec.ID)
	self := birth.Identity{Name: "user", UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: filepath.Join(dir, "home")}
	return birth.Config{
		Sandbox: string(spec.ID), Hostname: spec.Hostname,
		Identities: []birth.Identity{self},
		WhyNot:     map[string]string{"root": "the process backend runs commands only as the daemon's own user"},
		Workspace:  filepath.Join(dir, "workspace"), Path: b.path, Env: env,
		OutputBuffer: 1 << 20, Memory: spec.Limits.MemoryBytes,
	}
}

// spawn executes the guest with its two descriptors only.
func (b *Backend) spawn(id api.SandboxID, dir string, listener, control *os.File) (*exec.Cmd, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	program, err := birth.Program(b.cfg.Guest, null, listener, control)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	cmd := exec.Command(program.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = null, null, null
	cmd.Args = []string{birth.Argv0}
	cmd.Env = []string{marked.Variable + "=" + string(id)}
	cmd.Dir = dir
	cmd.ExtraFiles = []*os.File{birth.ListenFD - 3: listener, birth.ControlFD - 3: control}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, cmd.Start()
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
var _ sandbox.Backend = (*Backend)(nil)
