package process

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// mark is the environment variable that names the sandbox in every process.
const mark = "HORTUS_SANDBOX"

// proc is one process of this machine.
type proc struct {
	pid, ppid int
	state     byte
	started   string // start time in ticks; with the pid it is unique
}

// processes lists what /proc shows.
func processes() (map[int]proc, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := make(map[int]proc, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			all[pid] = p
		}
	}
	return all, nil
}

func readProc(pid int) (proc, bool) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return proc{}, false
	}
	// The command's name stands in parentheses and may hold any byte, so the
	// fields are counted from its last one.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return proc{}, false
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return proc{}, false
	}
	ppid, err := strconv.Atoi(f[1])
	if err != nil {
		return proc{}, false
	}
	return proc{pid: pid, ppid: ppid, state: f[0][0], started: f[19]}, true
}

// marked says whether a process carries the sandbox's id. The processes of other
// users cannot be read and are not ours.
func marked(pid int, id api.SandboxID) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	want := []byte(mark + "=" + string(id))
	for _, kv := range bytes.Split(env, []byte{0}) {
		if bytes.Equal(kv, want) {
			return true
		}
	}
	return false
}

// members finds the living processes of a sandbox: those that carry its mark and
// all that descend from them. Zombies are left out: they hold nothing any more.
func members(id api.SandboxID) ([]proc, error) {
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
			if !in[pid] && in[p.ppid] {
				in[pid], changed = true, true
			}
		}
	}
	var out []proc
	for pid := range in {
		if p := all[pid]; p.state != 'Z' && p.state != 'X' {
			out = append(out, p)
		}
	}
	return out, nil
}

// killAll kills a sandbox's processes until a look finds none. A look that finds
// some is followed by another, so that what was forked between a look and its
// kills is found by the next.
func killAll(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	proof := api.Proof{How: "no process with the sandbox's mark or of its descent is left"}
	seen := map[string]bool{}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		ps, err := members(id)
		if err != nil {
			return proof, err
		}
		proof.Left = len(ps)
		if len(ps) == 0 {
			proof.Killed = len(seen)
			return proof, nil
		}
		for _, p := range ps {
			seen[strconv.Itoa(p.pid)+"/"+p.started] = true
			kill(p)
		}
		select {
		case <-ctx.Done():
			return proof, api.Errorf(api.KindTimeout, "%d processes of sandbox %s are still alive: %w", len(ps), id, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// kill ends exactly the process that was seen, even if its pid was given to
// another one since.
func kill(p proc) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, ok := readProc(p.pid); ok && now.started == p.started {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}
