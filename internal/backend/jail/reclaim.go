package jail

import (
	"context"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/rundir"
	"hortus.dev/internal/platform/proc"
)

// reclaimTimeout is the maximum wait for killed processes to end.
const reclaimTimeout = 10 * time.Second

// Reclaim destroys what is left of a sandbox whose daemon has ended. See sandbox.Backend.
func (b *Backend) Reclaim(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	if !id.Valid() {
		return api.Proof{}, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(id))
	}
	ctx, cancel := context.WithTimeout(ctx, reclaimTimeout)
	defer cancel()
	group := b.cgroups.Open(string(id))
	dir := b.rundir(id)
	// A daemon that was started in another control group created them elsewhere.
	if r, err := rundir.Read(dir, id); err == nil {
		if g, err := cgroup.At(string(id), r.Groups); err == nil {
			group = g
		}
	}
	proof := api.Proof{How: "the sandbox had no processes"}
	if group.Exists() {
		killed, err := killGroup(ctx, group)
		proof = api.Proof{Killed: killed, How: "its control groups are empty"}
		if err != nil {
			proof.Left = len(group.Procs())
			return proof, api.Errorf(api.KindOf(err), "reclaim sandbox %s: %w", id, err)
		}
	}
	init, ok, err := rundir.ReadPID(dir)
	if err != nil {
		return proof, api.Errorf(api.KindInternal, "reclaim sandbox %s: %w", id, err)
	}
	if ok {
		killed := int(proc.TreeUsage(init.PID).Processes)
		alive, err := init.Kill(ctx, true)
		if err != nil {
			proof.Left = 1
			return proof, api.Errorf(api.KindOf(err), "reclaim sandbox %s: %w", id, err)
		}
		if alive {
			proof.Killed = max(proof.Killed, killed)
		}
		proof.How = "the init of its pid namespace has ended, and with it every process of the namespace"
	}
	if err := group.Remove(removeTimeout); err != nil {
		return proof, api.Errorf(api.KindInternal, "reclaim sandbox %s: %w", id, err)
	}
	holders, err := image.Holders(b.basesDir(id))
	if err == nil {
		err = b.removeDirs(id)
	}
	if err != nil {
		return proof, api.Errorf(api.KindInternal, "reclaim sandbox %s: %w", id, err)
	}
	if len(holders) > 0 {
		b.thaw(ctx, holders)
	}
	return proof, nil
}

// Orphans lists the sandboxes that have a run directory or a control group here: this
// daemon's own, and those that an earlier daemon left. A sandbox that a probe tries is none
// of them: a probe whose sandbox is reclaimed reports that this host can run none.
func (b *Backend) Orphans(context.Context) ([]api.SandboxID, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "run directory: %w", err)
	}
	names := b.cgroups.List()
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), basesSuffix))
	}
	seen := map[api.SandboxID]bool{}
	var out []api.SandboxID
	for _, n := range names {
		if id := api.SandboxID(n); id.Valid() && !seen[id] && !b.prober.Tried(id) {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out, nil
}

// processGroup is what killGroup needs of a control group.
type processGroup interface {
	Procs() []int
	KillAll() bool
	Thaw(context.Context) error
}

// killGroup kills processes until the group is empty. It returns how many there were at
// first.
func killGroup(ctx context.Context, g processGroup) (int, error) {
	first := len(g.Procs())
	if first > 0 {
		// It fails if there is no freezer, or nothing is frozen.
		g.Thaw(ctx)
	}
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		procs := g.Procs()
		if len(procs) == 0 {
			return first, nil
		}
		if !g.KillAll() {
			for _, pid := range procs {
				unix.Kill(pid, unix.SIGKILL) // it may have ended
			}
		}
		select {
		case <-ctx.Done():
			return first, ctx.Err()
		case <-time.After(pause):
		}
	}
}
