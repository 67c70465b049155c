package marked

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/proc"
)

// Variable is the environment variable that names the sandbox in every process.
const Variable = "HORTUS_SANDBOX"

// processes reads every process of the host.
func processes() (map[int]proc.Stat, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := make(map[int]proc.Stat, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := proc.Read(pid); err == nil {
			all[pid] = p
		}
	}
	return all, nil
}

// marked reports whether a process has the sandbox's id in its environment. Processes of other
// users cannot be read, and do not belong to the sandbox.
func marked(pid int, id api.SandboxID) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	want := []byte(Variable + "=" + string(id))
	for _, kv := range bytes.Split(env, []byte{0}) {
		if bytes.Equal(kv, want) {
			return true
		}
	}
	return false
}

// Members finds the live processes of a sandbox: those with its mark and their
// descendants.
func Members(id api.SandboxID) ([]proc.Stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	in := map[int]bool{}
	for pid := range all {
		if pid != os.Getpid() && marked(pid, id) {
			in[pid] = true
		}
	}
	for changed := true; changed; {
		changed = false
		for pid, p := range all {
			if !in[pid] && in[p.Parent] {
				in[pid], changed = true, true
			}
		}
	}
	var out []proc.Stat
	for pid := range in {
		if p := all[pid]; !p.Ended() {
			out = append(out, p)
		}
	}
	return out, nil
}

// KillAll kills a sandbox's processes until a scan finds none. A scan that finds some is followed
// by another one, which finds the processes that were forked meanwhile.
func KillAll(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	proof := api.Proof{How: "no process of the sandbox is left"}
	seen := map[proc.ID]bool{}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		ps, err := Members(id)
		if err != nil {
			return proof, err
		}
		proof.Left = len(ps)
		if len(ps) == 0 {
			proof.Killed = len(seen)
			return proof, nil
		}
		for _, p := range ps {
			seen[p.ID] = true
			_, _ = p.Kill(ctx, false) // the next scan finds a process that is left
		}
		select {
		case <-ctx.Done():
			return proof, api.Errorf(api.KindTimeout, "%d processes of sandbox %s are still alive: %w", len(ps), id, ctx.Err())
		case <-time.After(wait):
		}
	}
}
