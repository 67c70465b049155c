package jail

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
)

// reclaimWait bounds how long killed processes may take to be gone.
const reclaimWait = 10 * time.Second

// Reclaim destroys what is left of a sandbox whose owner is gone. See
// sandbox.Backend.
func (b *Backend) Reclaim(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	if !id.Valid() {
		return api.Proof{}, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(id))
	}
	ctx, cancel := context.WithTimeout(ctx, reclaimWait)
	defer cancel()
	group := b.cgroups.Open(string(id))
	dir := b.rundir(id)
	// A daemon that was started elsewhere may have made them elsewhere.
	if r, err := readRecord(dir, id); err == nil {
		if g, err := cgroup.At(string(id), r.Groups); err == nil {
			group = g
		}
	}
	proof := api.Proof{How: "nothing was there"}
	if group.Exists() {
		killed, err := b.empty(ctx, group)
		proof = api.Proof{Killed: killed, How: "its control groups are empty"}
		if err != nil {
			proof.Left = len(group.Procs())
			return proof, api.Errorf(api.KindOf(err), "reclaim sandbox %s: %w", id, err)
		}
	}
	init, ok, err := readPID(dir)
	if err != nil {
		return proof, api.Errorf(api.KindInternal, "reclaim sandbox %s: %w", id, err)
	}
	if ok {
		killed, err := end(ctx, init)
		if err != nil {
			proof.Left = 1
			return proof, api.Errorf(api.KindOf(err), "reclaim sandbox %s: %w", id, err)
		}
		if killed > proof.Killed {
			proof.Killed = killed
		}
		proof.How = "the init of its pid namespace is gone, and with it every process of the namespace"
	}
	if err := group.Remove(removeWait); err != nil {
		return proof, api.Errorf(api.KindInternal, "reclaim sandbox %s: %w", id, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return proof, api.Errorf(api.KindInternal, "reclaim sandbox %s: %w", id, err)
	}
	return proof, nil
}

// Orphans names the sandboxes that have a run directory or a control group here:
// with this process's own, those that an earlier owner left.
func (b *Backend) Orphans(context.Context) ([]api.SandboxID, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "run directory: %w", err)
	}
	names := b.cgroups.List()
	for _, e := range entries {
		names = append(names, e.Name())
	}
	seen := map[api.SandboxID]bool{}
	var out []api.SandboxID
	for _, n := range names {
		if id := api.SandboxID(n); id.Valid() && !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out, nil
}

// group is what empty needs of a control group.
type group interface {
	Procs() []int
	KillAll() bool
	Thaw(context.Context) error
}

// empty kills until no process is in the group, and counts those of the first
// look.
func (b *Backend) empty(ctx context.Context, g group) (int, error) {
	first := len(g.Procs())
	if first > 0 {
		// An error means that there is no freezer, or nothing frozen.
		g.Thaw(ctx)
	}
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		procs := g.Procs()
		if len(procs) == 0 {
			return first, nil
		}
		if !g.KillAll() {
			for _, pid := range procs {
				unix.Kill(pid, unix.SIGKILL) // gone already is what is wanted
			}
		}
		select {
		case <-ctx.Done():
			return first, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// readPID reads who the first process was, when it was recorded.
func readPID(dir string) (procID, bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, pidFile))
	if errors.Is(err, os.ErrNotExist) {
		return procID{}, false, nil
	}
	if err != nil {
		return procID{}, false, err
	}
	// A record that was cut short is of an owner that died before it sent a
	// word: the process ended with the control socket.
	p, ok := decodeProcID(b)
	return p, ok, nil
}

// end kills one process, unless its number means another by now, and waits until
// it is gone. It counts what was alive below it.
func end(ctx context.Context, p procID) (int, error) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == unix.ESRCH {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	// The descriptor holds the number, so that what is read now stays true.
	if !p.alive() {
		return 0, nil
	}
	n := int(usage(p.pid).processes)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return n, err
	}
	for {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		switch got, err := unix.Poll(poll, 20); {
		case err != nil && err != unix.EINTR:
			return n, err
		case got > 0:
			return n, nil
		case ctx.Err() != nil:
			return n, ctx.Err()
		}
	}
}
