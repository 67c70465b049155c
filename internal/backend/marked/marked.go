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
// users cannot be read, and do not belong to the sandbox. An environment is empty, too, for a
// moment while its process executes a file.
func marked(pid int, id api.SandboxID) (yes, empty bool) {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil || len(env) == 0 {
		return false, err == nil
	}
	want := []byte(Variable + "=" + string(id))
	for _, kv := range bytes.Split(env, []byte{0}) {
		if bytes.Equal(kv, want) {
			return true, false
		}
	}
	return false, false
}

// Members finds the live processes of a sandbox: those with its mark and their
// descendants.
func Members(id api.SandboxID) ([]proc.Stat, error) {
	ps, _, err := members(id)
	return ps, err
}

// kernelThreads is the parent of all threads of the kernel.
const kernelThreads = 2

// members is Members. It also reports whether a process may be executing a file.
func members(id api.SandboxID) (out []proc.Stat, executing bool, err error) {
	all, err := processes()
	if err != nil {
		return nil, false, err
	}
	in := map[int]bool{}
	for pid, p := range all {
		if pid == os.Getpid() || pid == kernelThreads || p.Parent == kernelThreads || p.Ended() {
			continue
		}
		yes, empty := marked(pid, id)
		if yes {
			in[pid] = true
		}
		executing = executing || empty
	}
	for changed := true; changed; {
		changed = false
		for pid, p := range all {
			if !in[pid] && in[p.Parent] {
				in[pid], changed = true, true
			}
		}
	}
	for pid := range in {
		if p := all[pid]; !p.Ended() {
			out = append(out, p)
		}
	}
	return out, executing, nil
}

// maxUnsure is the maximum number of scans because a process may be executing a file: some have
// no environment at all.
const maxUnsure = 4

// KillAll kills a sandbox's processes until a scan finds none. A scan that finds some is followed
// by another one, which finds the processes that were forked meanwhile.
func KillAll(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	proof := api.Proof{How: "no process of the sandbox is left"}
	seen := map[proc.ID]bool{}
	unsure := 0
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		ps, executing, err := members(id)
		if err != nil {
			return proof, err
		}
		proof.Left = len(ps)
		if executing && unsure < maxUnsure {
			unsure++
		} else if len(ps) == 0 {
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
