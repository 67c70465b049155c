package bench

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// rowRival is the beginning of a rival's row; its name follows.
const rowRival = "rival: "

// rival is another program that makes an isolated environment, runs a command in
// it and takes it down, all in one call.
type rival struct {
	name string
	// note is what it isolates less or more than `container`.
	note string
	// prepare makes ready what is not part of the work, in a directory of the
	// rival's own that is removed later, and gives the call. An error means
	// that it is absent here, and why.
	prepare func(ctx context.Context, dir string, argv []string) (call, error)
}

// call is a rival that is there. Each time it makes the command line of the whole
// work; close, if there is one, takes away what outlives it.
type call struct {
	command func(ctx context.Context) *exec.Cmd
	close   func(ctx context.Context) error
}

// rivals are measured in this order, the least isolating first.
var rivals = []rival{unshare, bubblewrap, runc, docker}

// rivalCleanup bounds the cleaning up after one rival.
const rivalCleanup = 30 * time.Second

// rivals measures a sandbox's whole life beside the same work done by others: one
// of ours, one of each of theirs, in turn. A rival's clock is its process, from
// fork to exit.
func (r *run) rivals(ctx context.Context) error {
	dir, err := rivalsDir()
	if err != nil {
		return api.Errorf(api.KindInternal, "rivals: %w", err)
	}
	defer os.RemoveAll(dir)

	all := []*series{{row: admin.BenchRow{Name: rowNativeCapture}, sample: nativeCapture}}
	for _, backend := range r.backends {
		ways, notes, err := r.waysOf(ctx, backend)
		if err != nil {
			return err
		}
		for i, w := range ways {
			all = append(all, &series{
				row:    admin.BenchRow{Name: rowWhole + w.name, Backend: backend, Baseline: rowNativeCapture, Note: notes[i]},
				sample: func() error { return r.whole(ctx, w, backend) },
			})
		}
	}
	var absent []admin.BenchRow
	for _, v := range append(slices.Clone(rivals), plainRunsc(r.Runsc)) {
		c, err := v.ready(ctx, filepath.Join(dir, v.name), []string{command})
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			absent = append(absent, admin.BenchRow{Name: rowRival + v.name, Note: v.name + ": " + err.Error()})
			continue
		}
		defer c.end(ctx)
		row := admin.BenchRow{Name: rowRival + v.name, Note: v.note}
		if len(all) > 1 { // our first way of the strongest backend
			row.Baseline = all[1].row.Name
		}
		all = append(all, &series{row: row, sample: func() error { _, err := c.run(ctx); return err }})
	}
	if err := r.inTurn(ctx, all, max(r.n/4, 1), 3); err != nil {
		return err
	}
	base := map[string]float64{}
	for _, s := range all {
		fill(&s.row, s.times)
		if _, ok := base[s.row.Name]; !ok {
			base[s.row.Name] = s.row.P50MS
		}
		compare(&s.row, base[s.row.Baseline])
		if s.row.Name != rowNativeCapture { // which "exec" reports
			r.report(s.row)
		}
	}
	for _, row := range absent {
		r.report(row)
	}
	return nil
}

// rivalsDir makes the directory of all rivals. Others may look into it: the
// identities inside must reach the roots there.
func rivalsDir() (string, error) {
	dir, err := os.MkdirTemp("", "hortus-bench-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
}

// ready prepares a rival and lets it do its work once.
func (v rival) ready(ctx context.Context, dir string, argv []string) (call, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return call{}, err
	}
	c, err := v.prepare(ctx, dir, argv)
	if err != nil {
		return call{}, err
	}
	if _, err := c.run(ctx); err != nil {
		c.end(ctx)
		return call{}, err
	}
	return c, nil
}

// run does the work once and gives what the command wrote.
func (c call) run(ctx context.Context) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := c.command(ctx)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A child that outlives its parent must not keep the pipes open.
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", failure(err, stderr.String())
	}
	return stdout.String(), nil
}

// end takes away what a rival keeps, also when the measurement was cancelled.
func (c call) end(ctx context.Context) {
	if c.close == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rivalCleanup)
	defer cancel()
	_ = c.close(ctx) // what is left is a rival's, in a directory that goes
}

// failure returns why a rival did not do its work, in a line.
func failure(err error, stderr string) error {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return errors.New("does not work here: " + clip(last, 200))
	}
	return errors.New("does not work here: " + err.Error())
}

func clip(s string, most int) string {
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// find looks for a program on the daemon's PATH.
func find(program string) (string, error) {
	p, err := exec.LookPath(program)
	if err != nil {
		return "", errors.New("not installed")
	}
	return p, nil
}

// root is a root like that of the host template: this machine's programs and
// libraries, read-only, below a skeleton that is otherwise empty.
type root struct {
	// trees are directories of this host, shown at the same place.
	trees []string
	// links are symbolic links and their targets.
	links map[string]string
}

func hostRoot() root {
	r := root{links: map[string]string{}}
	for _, d := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		fi, err := os.Lstat(d)
		switch {
		case err != nil:
		case fi.IsDir():
			r.trees = append(r.trees, d)
		case fi.Mode()&os.ModeSymlink != 0:
			if target, err := os.Readlink(d); err == nil {
				r.links[d] = target
			}
		}
	}
	return r
}

// skeleton makes the directories and links of a root, to mount the trees on.
func (r root) skeleton(dir string) error {
	for _, d := range append([]string{"/proc", "/sys", "/dev", "/tmp", "/etc", "/workspace"}, r.trees...) {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for link, target := range r.links {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	return nil
}
