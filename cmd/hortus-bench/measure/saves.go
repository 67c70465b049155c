package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
)

// Rows of the measurement "save"; how much is held follows.
const (
	rowSave      = "save"
	rowSaveStill = "save, paused"
	rowRestore   = "restore to first exec"
	rowPause     = "pause to disk"
	rowResume    = "resume to first exec"
)

func withSize(name string, mb int) string { return fmt.Sprintf("%s, %d MB", name, mb) }

// rounds is how many samples are taken of what takes long: fewer of what is large.
func (r *run) rounds(mb int) int {
	if mb > 100 {
		return min(max(r.N/40, 1), 10)
	}
	return min(max(r.N/8, 1), 50)
}

// saves measures a sandbox's way to disk and back. In turn come a create, which the
// others are compared with; a snapshot, after which the sandbox continues; a start from
// that; a pause to disk; the resume.
func (r *run) saves(ctx context.Context, backend string) error {
	for _, mb := range r.sizes() {
		if why := fits(3 * mb); why != "" { // the sandbox, its image, what starts from it
			r.report(figure.Row{Name: withSize(rowSave, mb), Backend: backend, Note: why})
			continue
		}
		if err := r.savesOf(ctx, backend, mb); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) savesOf(ctx context.Context, backend string, mb int) error {
	id, err := r.held(ctx, roomy(backend, mb), mb)
	if err != nil {
		return err
	}
	defer r.kill(id)
	times := map[string][]time.Duration{}
	took := func(name string, f func() error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.quiet(ctx); err != nil {
			return err
		}
		start := time.Now()
		err := f()
		times[name] = append(times[name], time.Since(start))
		return err
	}
	n := r.rounds(mb)
	var bytes int64
	for i := range n {
		r.step(backend, i, n)
		var s api.Snapshot
		err := r.plain(ctx, took, backend)
		if err == nil {
			err = took(rowSave, func() (err error) {
				s, err = r.Sandboxes.Saver.Snapshot(ctx, id, api.CreateSnapshot{})
				return err
			})
		}
		if err != nil {
			return err
		}
		times[rowSaveStill] = append(times[rowSaveStill], time.Duration(s.PausedMS)*time.Millisecond)
		bytes = s.Bytes
		err = r.fromSnapshot(ctx, took, backend, s, mb)
		if err = errors.Join(err, r.drop(s.ID)); err != nil {
			return err
		}
		if err := took(rowPause, func() error { _, err := r.Sandboxes.Pauser.PauseToDisk(ctx, id); return err }); err != nil {
			return err
		}
		if err := took(rowResume, func() error {
			if _, err := r.Sandboxes.Sandboxes.Resume(ctx, id); err != nil {
				return err
			}
			return r.recorded(ctx, id)
		}); err != nil {
			return err
		}
	}
	r.step(backend, n, n)
	for _, name := range []string{rowSave, rowSaveStill, rowRestore, rowPause, rowResume} {
		row := figure.Row{Name: withSize(name, mb), Backend: backend, Baseline: rowCreate + cold.name}
		switch name {
		case rowSaveStill:
			row.Baseline = ""
		case rowSave:
			row.Note = fmt.Sprintf("%.0f MB on disk, digests included in the time", float64(bytes)/1e6)
		}
		r.times(row, times[name], figure.Median(times[rowCreate+cold.name]))
	}
	return nil
}

// plain takes a sample of what saves, restores and forks are compared with: a
// sandbox of nothing, booted for its first command.
func (r *run) plain(ctx context.Context, took func(string, func() error) error, backend string) error {
	var id api.SandboxID
	err := took(rowCreate+cold.name, func() (err error) {
		id, _, err = r.birth(ctx, cold, backend)
		return err
	})
	if err != nil {
		return err
	}
	return r.destroy(ctx, id)
}

// fromSnapshot starts a sandbox from a snapshot, and ends it.
func (r *run) fromSnapshot(ctx context.Context, took func(string, func() error) error, backend string, s api.Snapshot, mb int) error {
	req := roomy(backend, mb)
	req.Template = string(s.ID)
	var id api.SandboxID
	err := took(rowRestore, func() (err error) {
		id, _, err = r.started(ctx, func() (api.Sandbox, error) { return r.Sandboxes.Creator.CreateCold(ctx, req) },
			func(id api.SandboxID) error { return r.recorded(ctx, id) })
		return err
	})
	if err != nil {
		return err
	}
	return r.destroy(ctx, id)
}

// drop removes a snapshot that was made for a measurement, also one that was
// interrupted.
func (r *run) drop(id api.SnapshotID) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := r.Sandboxes.Saver.RemoveSnapshot(ctx, id)
	return err
}

// spare is what a measurement leaves of this machine's memory, in MB.
const spare = 1024

// fits returns why this machine has no space for so many MB now; empty when it has.
func fits(mb int) string {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "not measured: " + err.Error()
	}
	if free := available(b); free < mb+spare {
		return fmt.Sprintf("not measured: it needs %d MB and %d to spare, and %d MB are available", mb, spare, free)
	}
	return ""
}

// available reads MemAvailable of /proc/meminfo, in MB.
func available(meminfo []byte) int {
	for line := range bytes.Lines(meminfo) {
		if v, ok := bytes.CutPrefix(line, []byte("MemAvailable:")); ok {
			if f := bytes.Fields(v); len(f) > 0 {
				kb, _ := strconv.Atoi(string(f[0])) // 0 is no space
				return kb / 1024
			}
		}
	}
	return 0
}
