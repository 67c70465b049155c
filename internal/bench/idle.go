package bench

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// rowIdle is the row of the measurement "idle".
const rowIdle = "idle memory per sandbox"

// idle measures what sandboxes cost that do nothing: the proportional set size
// of the processes that the daemon gained, per sandbox, after each has run a
// command.
func (r *run) idle(ctx context.Context) error {
	for _, backend := range r.backends {
		if err := r.idleOf(ctx, backend); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) idleOf(ctx context.Context, backend string) error {
	const count = 10
	if err := quiet(ctx, r.Sandboxes); err != nil {
		return err
	}
	before := children()
	for i := range count {
		r.step(backend, i, count)
		id, _, err := r.birth(ctx, cold, backend)
		if err != nil {
			return err
		}
		defer r.kill(id)
	}
	r.step(backend, count, count)
	row := api.BenchRow{Name: rowIdle, Backend: backend, N: count, Unit: "MB"}
	var total int64
	found := 0
	for pid := range children() {
		if before[pid] {
			continue
		}
		pss, ok := proportional(strconv.Itoa(pid))
		if !ok {
			continue
		}
		found++
		total += pss
	}
	if found < count {
		row.N, row.Unit = 0, ""
		row.Note = "this user may not read the memory maps of the guests"
	} else {
		row.Value = float64(total) / count / 1e6
	}
	r.report(row)
	return nil
}

// children finds the processes whose parent is this one, seen from outside of
// any namespace: that is what a guest looks like on its host.
func children() map[int]bool {
	out := map[int]bool{}
	self := strconv.Itoa(os.Getpid())
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
			if v, ok := strings.CutPrefix(line, "PPid:"); ok && strings.TrimSpace(v) == self {
				out[pid] = true
			}
		}
	}
	return out
}

// proportional gives the proportional set size of a process (a number or
// "self") in bytes.
func proportional(pid string) (int64, bool) {
	f, err := os.Open(filepath.Join("/proc", pid, "smaps_rollup"))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if v, ok := strings.CutPrefix(s.Text(), "Pss:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			return kb * 1024, err == nil
		}
	}
	return 0, false
}
