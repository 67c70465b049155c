package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// Rows of the measurement "idle".
const (
	rowIdle    = "idle memory per sandbox"
	rowCharged = "idle memory per sandbox, charged"
)

// idleCount is how many sandboxes are idle at once.
const idleCount = 20

// idle measures what sandboxes cost that do nothing: the proportional set size
// of all processes that the daemon gained below it, each address space once, per sandbox,
// after each has run a command; beside it what the host charges them for, which counts
// what is shared once, for the first who touched it.
func (r *run) idle(ctx context.Context) error {
	for _, backend := range r.backends {
		if err := r.idleOf(ctx, backend); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) idleOf(ctx context.Context, backend string) error {
	if err := quiet(ctx, r.Sandboxes); err != nil {
		return err
	}
	// What starts with the first sandbox of all, and serves every other one too, is not
	// one sandbox's.
	if err := r.Sandboxes.Check(ctx, request(backend)); err != nil {
		return err
	}
	before := descendants()
	var ids []api.SandboxID
	for i := range idleCount {
		r.step(backend, i, idleCount)
		id, _, err := r.birth(ctx, cold, backend)
		if err != nil {
			return err
		}
		defer r.kill(id)
		ids = append(ids, id)
	}
	r.step(backend, idleCount, idleCount)
	// What was started gives memory back a moment after its start.
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleRest):
	}
	row := admin.BenchRow{Name: rowIdle, Backend: backend, N: idleCount, Unit: "MB"}
	found := slices.DeleteFunc(descendants(), func(pid int) bool { return slices.Contains(before, pid) })
	total, whole := together(found)
	if !whole || len(found) < idleCount {
		row.N, row.Unit = 0, ""
		row.Note = "this user may not read the memory maps of the guests"
	} else {
		row.Value = float64(total.all) / idleCount / 1e6
		row.Note = fmt.Sprintf("all %d processes of %d sandboxes, %d address spaces", len(found), idleCount, len(spaces(found, sameSpace)))
	}
	r.report(row)
	return r.charged(ctx, backend, ids)
}

// pss is the proportional set size of processes, in bytes: all of it, and the files in memory, which on
// gVisor are the memory of the programs and files in the sandboxes.
type pss struct{ all, files int64 }

// together adds processes up, each address space once. whole is false if one of them cannot be
// read.
func together(pids []int) (total pss, whole bool) {
	whole = true
	for _, pid := range spaces(pids, sameSpace) {
		p, ok := proportional(strconv.Itoa(pid))
		total.all, total.files, whole = total.all+p.all, total.files+p.files, whole && ok
	}
	return total, whole
}

// idleRest is longer than any part of a sandbox waits before it gives back what its
// start needed.
const idleRest = 3 * time.Second

// charged reports what the host's own accounts say of the sandboxes.
func (r *run) charged(ctx context.Context, backend string, ids []api.SandboxID) error {
	row := admin.BenchRow{Name: rowCharged, Backend: backend, N: len(ids), Unit: "MB"}
	for _, id := range ids {
		s, err := r.Sandboxes.Stats(ctx, id)
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			r.report(admin.BenchRow{Name: rowCharged, Backend: backend, Note: "not counted: " + err.Error()})
			return nil
		}
		row.Value += float64(s.MemoryBytes) / float64(len(ids)) / 1e6
	}
	if row.Value == 0 {
		row.N, row.Unit, row.Note = 0, "", "this host does not count the memory of a sandbox"
	}
	r.report(row)
	return nil
}

// descendants lists the processes that descend from this one, seen from outside of any
// namespace: among them is what a guest looks like on its host.
func descendants() []int {
	kids := map[int][]int{}
	for pid, parent := range parents() {
		kids[parent] = append(kids[parent], pid)
	}
	out := slices.Clone(kids[os.Getpid()])
	for i := 0; i < len(out); i++ {
		out = append(out, kids[out[i]]...)
	}
	return out
}

// parents returns every process's parent.
func parents() map[int]int {
	out := map[int]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return out
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, "PPid:"); ok {
				if parent, err := strconv.Atoi(strings.TrimSpace(v)); err == nil {
					out[pid] = parent
				}
			}
		}
	}
	return out
}

// proportional returns the proportional set size of a process (a number or
// "self") in bytes.
func proportional(pid string) (p pss, ok bool) {
	f, err := os.Open(filepath.Join("/proc", pid, "smaps_rollup"))
	if err != nil {
		return p, false
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		name, v, _ := strings.Cut(s.Text(), ":")
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
		switch {
		case err != nil:
		case name == "Pss":
			p.all, ok = kb*1024, true
		case name == "Pss_Shmem":
			p.files = kb * 1024
		}
	}
	return p, ok
}
