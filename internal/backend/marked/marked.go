package marked

import (
	"bytes"
	"context"
	"errors"
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
			if len(ps) == 0 {
				return proof, api.Errorf(api.KindTimeout, "no process of sandbox %s was found, but one of this machine that executes a file now may be its: %w", id, ctx.Err())
			}
			return proof, api.Errorf(api.KindTimeout, "%d processes of sandbox %s are still alive: %w", len(ps), id, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// Stats adds up the processes of a sandbox that the host sees.
func Stats(id api.SandboxID) (api.Stats, error) {
	ps, err := Members(id)
	if err != nil {
		return api.Stats{}, api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	s := api.Stats{At: time.Now().UTC(), MemoryOwnBytes: -1, MemoryPeakBytes: -1, MemoryKills: -1, DiskUsedBytes: -1, DiskTotalBytes: -1, Processes: int64(len(ps))}
	for _, p := range ps {
		s.CPUTimeMS += p.CPU.Milliseconds()
		s.MemoryBytes += p.Memory
	}
	return s, nil
}

// Reclaim kills the processes of a sandbox and removes its directory, which is below dir and has its ID as the name.
func Reclaim(ctx context.Context, dir string, id api.SandboxID) (api.Proof, error) {
	if !id.Valid() {
		return api.Proof{}, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", id)
	}
	proof, err := KillAll(ctx, id)
	if err != nil {
		return proof, err
	}
	if err := os.RemoveAll(filepath.Join(dir, string(id))); err != nil {
		return proof, api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	return proof, nil
}

// Directories lists the sandboxes that have a directory below dir. If there is no such directory, there are none.
func Directories(dir string) ([]api.SandboxID, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, api.Errorf(api.KindInternal, "list sandboxes: %w", err)
	}
	var ids []api.SandboxID
	for _, e := range entries {
		if id := api.SandboxID(e.Name()); id.Valid() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
