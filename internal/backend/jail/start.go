package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
)

// outputBuffer bounds what a guest keeps of one command's output, in bytes.
const outputBuffer = 1 << 20

// startTimeout bounds a start whatever the caller allows: what does not answer by
// then never will.
const startTimeout = 60 * time.Second

// inodeBytes is the size of disk that one inode stands for in its bound.
const inodeBytes = 4 << 10

// Start boots a guest. See sandbox.Backend.
func (b *Backend) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	w, err := b.boot(ctx, spec, false, nil)
	if err != nil {
		return nil, err
	}
	if err := w.Claim(ctx, nil); err != nil {
		w.Kill(context.WithoutCancel(ctx))
		return nil, err
	}
	return w.machine, nil
}

// boot brings a guest to the point where it waits for "go". Ahead says that
// nobody knows yet whom it is for. With an image it comes from that: of
// the memory of a kernel of its own, else of files.
func (b *Backend) boot(ctx context.Context, spec sandbox.Spec, ahead bool, image []*os.File) (*waiting, error) {
	u, err := b.begin(ctx, spec, ahead, image, false)
	if err != nil {
		return nil, err
	}
	return u.finish(ctx)
}

// unborn is a guest on its way into life.
type unborn struct {
	m     *machine
	spec  sandbox.Spec
	trees []*prepared
	conn  *child
	// restored says that it comes with the memory of a kernel of its own.
	restored bool
	// undo takes back what was done so far, in reverse order.
	undo []func()
}

// drop ends it. What has become a machine is not touched.
func (u *unborn) drop() {
	for i := len(u.undo) - 1; i >= 0; i-- {
		u.undo[i]()
	}
	u.undo = nil
}

// begin starts a guest's first process and tells it everything. Held says that the
// image is not written yet: its kernel is made, and waits for the word.
func (b *Backend) begin(ctx context.Context, spec sandbox.Spec, ahead bool, image []*os.File, held bool) (_ *unborn, err error) {
	if err := b.check(spec); err != nil {
		return nil, err
	}
	trees, err := b.resolve(spec.Layers)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	u := &unborn{spec: spec, trees: trees, restored: image != nil && b.cfg.Kernel != nil}
	defer func() {
		if err != nil {
			u.drop()
		}
	}()

	ws, err := b.attach(ctx, spec.Workspace)
	if err != nil {
		return nil, err
	}
	u.undo = append(u.undo, ws.release)

	m := &machine{b: b, ws: ws, id: spec.ID, limits: spec.Limits, turn: make(chan struct{}, 1), done: make(chan struct{}), freed: make(chan struct{}), disk: -1, dir: b.rundir(spec.ID)}
	u.m = m
	if b.cfg.Image != nil {
		m.image = b.cfg.Image()
	}
	if b.root {
		if m.lease, err = b.ids.get(); err != nil {
			return nil, api.Errorf(api.KindExhausted, "lease a uid range: %w", err)
		}
		u.undo = append(u.undo, func() { b.ids.put(m.lease) })
	}
	if err := os.Mkdir(m.dir, 0o700); errors.Is(err, os.ErrExist) {
		return nil, api.Errorf(api.KindExists, "sandbox %s exists already", spec.ID)
	} else if err != nil {
		return nil, api.Errorf(api.KindInternal, "run directory: %w", err)
	}
	u.undo = append(u.undo, func() { os.RemoveAll(m.dir) })
	if m.group, err = b.cgroups.Create(string(spec.ID), b.groupLimits(spec.Limits)); err != nil {
		return nil, api.Errorf(api.KindInternal, "sandbox %s: %w", spec.ID, err)
	}
	u.undo = append(u.undo, func() { _ = b.vacate(m.group, time.Second) })

	ch, err := b.spawn(m.group, m.lease)
	if err != nil {
		return nil, spawnError(err)
	}
	m.proc, u.conn = ch.proc, ch
	u.undo = append(u.undo, ch.kill, func() { ch.conn.Close() })
	if m.end, err = ch.watch(); err != nil {
		return nil, api.Errorf(api.KindInternal, "sandbox %s: %w", spec.ID, err)
	}
	u.undo = append(u.undo, m.end.close)
	defer u.hurry(ctx)()
	if err := b.instruct(u, ahead, image, held); err != nil {
		return nil, birthError(ctx, spec.ID, u.fallen(err))
	}
	return u, nil
}

// hurry has the end of ctx reach a read or write that is under way.
func (u *unborn) hurry(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { u.conn.conn.SetDeadline(time.Unix(1, 0)) })
}

// instruct tells a child that was cloned what it is to become.
func (b *Backend) instruct(u *unborn, ahead bool, image []*os.File, held bool) error {
	m, ch := u.m, u.conn
	id, err := processID(ch.proc.Pid)
	if err != nil {
		return err
	}
	// For Reclaim, and for the next owner of the uid range.
	if err := os.WriteFile(filepath.Join(m.dir, pidFile), id.encode(), 0o600); err != nil {
		return err
	}
	if m.lease != nil {
		if err := m.lease.record(id); err != nil {
			return err
		}
	}
	is, fds, err := b.initSpec(ch.proc.Pid, m, u.spec, u.trees, image)
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	if err != nil {
		return err
	}
	if is.Keeper != nil {
		is.Keeper.Held = held
	}
	if err := ch.send(is, append(fds, int(b.guest.Fd()))); err != nil {
		return err
	}
	if !u.restored { // else it has its configuration
		cfg := b.guestConfig(u.spec, u.trees)
		cfg.Waits = ahead
		// A stage that failed by now is gone, and has said why.
		if err := ch.send(cfg, nil); err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
			return err
		}
	}
	return nil
}

// finish waits until the guest waits for "go". On an error nothing is left.
func (u *unborn) finish(ctx context.Context) (_ *waiting, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			u.drop()
		}
	}()
	m, ch := u.m, u.conn
	defer u.hurry(ctx)()
	if m.disk, err = ch.awaitBuilt(); err != nil {
		return nil, birthError(ctx, u.spec.ID, u.fallen(err))
	}
	if err = ch.awaitReady(); err != nil {
		unix.Close(m.disk)
		m.disk = -1
		return nil, birthError(ctx, u.spec.ID, u.fallen(err))
	}
	// Before "go": from then on it may outlive this process.
	r, err := m.newRecord(u.spec)
	if err == nil {
		err = r.write(m.dir)
	}
	if err != nil {
		unix.Close(m.disk)
		m.disk = -1
		return nil, api.Errorf(api.KindInternal, "sandbox %s: its record: %w", u.spec.ID, err)
	}
	m.born = ch.Child
	m.link = newLink(filepath.Join(m.dir, initns.SocketName), ch.proc.Pid, m.done)
	m.b.machines.Add(1)
	go m.wait()
	u.undo = nil
	return &waiting{machine: m, trees: u.trees, conn: ch, spec: u.spec, restored: u.restored}, nil
}

// initSpec describes the sandbox to the stage and opens what it needs. The
// descriptors are the caller's to close, also after an error; the guest's
// executable is to follow them.
func (b *Backend) initSpec(pid int, m *machine, spec sandbox.Spec, trees []*prepared, image []*os.File) (*initns.Spec, []int, error) {
	is := b.baseSpec()
	is.Hostname = spec.Hostname
	is.DiskBytes, is.DiskInodes = spec.Limits.DiskBytes, inodes(spec.Limits.DiskBytes)
	is.Files = []initns.File{
		{Path: "/etc/hostname", Data: spec.Hostname + "\n"},
		{Path: "/etc/hosts", Data: "127.0.0.1\tlocalhost " + spec.Hostname + "\n::1\tlocalhost ip6-localhost\n"},
	}
	if b.cfg.Kernel != nil {
		is.Files = append(is.Files, initns.File{Path: birth.Placeholder})
	} else {
		is.Run = runFiles(spec)
	}
	var fds []int
	add := func(fd int) int {
		fds = append(fds, fd)
		return len(fds) - 1
	}
	dir, err := unix.Open(m.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fds, err
	}
	is.RunDir = add(dir)
	userns := -1
	if m.lease != nil {
		// The stage binds the socket as root inside; the directory above stays
		// the daemon's alone.
		if err := unix.Fchown(dir, m.lease.base, m.lease.base); err != nil {
			return nil, fds, err
		}
		if userns, err = unix.Open(fmt.Sprintf("/proc/%d/ns/user", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return nil, fds, err
		}
		defer unix.Close(userns)
	}
	for i := len(trees) - 1; i >= 0; i-- { // the top one first
		l := initns.Lower{FD: -1, Path: trees[i].tree.Root}
		if userns >= 0 {
			fd, err := mapped(trees[i].tree.Root, userns)
			if err != nil {
				return nil, fds, err
			}
			l = initns.Lower{FD: add(fd)}
		}
		is.Roots = append(is.Roots, l)
	}
	for _, p := range trees {
		for _, t := range p.tree.Mounts {
			lowers, err := b.lowers(t.Lowers, add)
			if err != nil {
				return nil, fds, api.Errorf(api.KindUnisolated, "mount the layers of %s: %w", t.Target, err)
			}
			is.Mounts = append(is.Mounts, initns.Mount{Target: t.Target, Lowers: lowers})
		}
	}
	if is.Workspace, err = m.ws.initWorkspace(pid, userns, add); err != nil {
		return nil, fds, err
	}
	dev, err := b.devices()
	if err != nil {
		return nil, fds, err
	}
	if dev >= 0 {
		is.Dev = add(dev)
	}
	if image != nil && b.cfg.Kernel == nil {
		fd, err := unix.FcntlInt(image[0].Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fds, err
		}
		is.Saved = add(fd)
	}
	if b.cfg.Kernel != nil {
		if is.Keeper, err = b.keeperPlan(spec, image, add); err != nil {
			return nil, fds, err
		}
	}
	if len(fds)+1 > initns.MaxFDs {
		return nil, fds, fmt.Errorf("%d layers and mounts are more than one packet carries", len(fds))
	}
	is.Guest = len(fds)
	return is, fds, nil
}

// keeperPlan says what the keeper is to start, and opens what it needs for that.
func (b *Backend) keeperPlan(spec sandbox.Spec, image []*os.File, add func(int) int) (*keeper.Plan, error) {
	q := PlanRequest{ID: spec.ID, Hostname: spec.Hostname, Limits: spec.Limits, Durable: spec.Workspace != nil && spec.Workspace.Upper != ""}
	at, dir := -1, b.cfg.Kernel.Tools()
	if b.root { // else the stage, which may mount, finds it by its name
		tools, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("the kernel's programs: %w", err)
		}
		at = add(tools)
	}
	for _, f := range image {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		q.Image = append(q.Image, add(fd))
	}
	plan, err := b.cfg.Kernel.Plan(q)
	plan.Tools, plan.ToolsPath, plan.Restored = at, dir, image != nil
	return &plan, err
}

// baseSpec is what does not depend on the sandbox.
func (b *Backend) baseSpec() *initns.Spec {
	is := &initns.Spec{RunDir: -1, Guest: -1, Dev: -1, Saved: -1, UID: userUID, GID: userUID, Hidepid: true, Filter: b.filter, Quotas: b.quotas()}
	own := func(path string, mode uint32, id int) {
		is.Dirs = append(is.Dirs, initns.Dir{Path: path, Mode: mode, UID: id, GID: id})
	}
	is.Clocks = b.clocks && !b.root
	if b.root {
		is.Switch, is.UID, is.GID = true, guestUID, guestUID
		is.Caps, is.Bounding = mask(guestCaps), 0
	}
	if b.cfg.Kernel != nil {
		own(keeper.GuestTarget, 0o755, rootUID)
	}
	own("/", 0o755, rootUID)
	own("/etc", 0o755, rootUID)
	own("/home", 0o755, rootUID)
	own("/home/user", 0o755, userUID)
	own("/workspace", 0o755, userUID)
	own("/root", 0o700, rootUID)
	own("/run", 0o755, rootUID)
	own("/tmp", 0o1777, rootUID)
	own("/var", 0o755, rootUID)
	own("/var/tmp", 0o1777, rootUID)
	return is
}

// guestConfig tells the guest what it is.
func (b *Backend) guestConfig(spec sandbox.Spec, trees []*prepared) *birth.Config {
	path, env := environment(trees, spec.Env)
	user := birth.Identity{Name: "user", UID: userUID, GID: userUID, Home: "/home/user"}
	cfg := &birth.Config{
		Sandbox: string(spec.ID), Hostname: spec.Hostname, Workspace: "/workspace", Path: path, Env: env,
		Identities: []birth.Identity{user}, OutputBuffer: outputBuffer, PID1: true,
	}
	if b.root || b.cfg.Kernel != nil { // whose ids are its own
		cfg.Switch = true
		cfg.Identities = append(cfg.Identities, birth.Identity{Name: "root", UID: rootUID, GID: rootUID, Home: "/root", Caps: rootCaps})
	} else {
		cfg.WhyNot = map[string]string{"root": noRootReason}
	}
	// Below the group's limit, which counts the guest too.
	cfg.Processes = spec.Limits.Processes
	if b.cfg.Kernel != nil {
		cfg.OwnKernel, cfg.Own, cfg.Files = true, ownDirs(), ownFiles(spec)
		cfg.Memory = spec.Limits.MemoryBytes
		return cfg
	}
	if ok, _ := b.cgroups.Has(cgroup.Memory); !ok {
		cfg.Memory = spec.Limits.MemoryBytes
	}
	return cfg
}

// groupLimits leaves room for the guest beside its commands: they are stopped by
// the resource limit on their own uid first.
func (b *Backend) groupLimits(l api.Limits) cgroup.Limits {
	g := cgroup.Limits{MemoryBytes: l.MemoryBytes, Processes: l.Processes, CPUs: l.CPUs}
	if b.cfg.Kernel != nil {
		if g.MemoryBytes > 0 {
			g.MemoryBytes += kernelMemory
		}
		if g.Processes > 0 {
			g.Processes = g.Processes*tasksPerProcess + kernelTasks
		}
		return g
	}
	if g.Processes > 0 {
		g.Processes += birth.Reserve
	}
	return g
}

// check refuses a Spec that makes no sense or asks for what is missing.
func (b *Backend) check(spec sandbox.Spec) error {
	if !spec.ID.Valid() {
		return api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(spec.ID))
	}
	if n := len(spec.Hostname); n == 0 || n > 63 {
		return api.Errorf(api.KindInvalid, "a host name of %d bytes; it has 1 to 63", n)
	}
	l := spec.Limits
	if l.CPUs < 0 || l.CPUTimeMS < 0 || l.MemoryBytes < 0 || l.Processes < 0 || l.DiskWriteRate < 0 || l.OutputBytes < 0 {
		return api.Errorf(api.KindInvalid, "a limit is negative")
	}
	if l.DiskBytes < 1<<20 {
		return api.Errorf(api.KindInvalid, "a disk of %d bytes is smaller than 1 MiB", l.DiskBytes)
	}
	for _, a := range []struct {
		asked bool
		cap   api.Capability
	}{
		{spec.Asked.CPUs, api.CapLimitCPU}, {spec.Asked.CPUTime, api.CapLimitCPUTime}, {spec.Asked.Memory, api.CapLimitMemory},
		{spec.Asked.Processes, api.CapLimitProcs}, {spec.Asked.Disk, api.CapLimitDisk}, {spec.Asked.DiskRate, api.CapLimitDiskRate},
		{spec.Asked.Output, api.CapLimitOutput},
	} {
		if ability := b.limit(a.cap); a.asked && !ability.OK {
			return api.Errorf(api.KindUnsupported, "capability %s is missing: %s", a.cap, ability.Reason).WithHint("%s", ability.Fix)
		}
	}
	return nil
}
