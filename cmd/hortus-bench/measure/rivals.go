package measure

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/program"
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

	all := []*series{{row: figure.Row{Name: rowNativeCapture}, sample: clocked(nativeCapture)}}
	for _, backend := range r.backends {
		ways, err := r.waysOf(ctx, backend)
		if err != nil {
			return err
		}
		for _, w := range ways {
			all = append(all, &series{
				row:    figure.Row{Name: rowWhole + w.name, Backend: backend, Baseline: rowNativeCapture, Note: w.note},
				sample: clocked(func() error { return r.whole(ctx, w, backend) }),
			})
		}
	}
	var absent []figure.Row
	for _, v := range rivals {
		c, err := v.ready(ctx, filepath.Join(dir, v.name), []string{command})
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			absent = append(absent, figure.Row{Name: rowRival + v.name, Note: v.name + ": " + err.Error()})
			continue
		}
		defer c.end(ctx)
		row := figure.Row{Name: rowRival + v.name, Note: v.note}
		if len(all) > 1 { // our first way of the strongest backend
			row.Baseline = all[1].row.Name
		}
		all = append(all, &series{row: row, sample: clocked(func() error { _, err := c.run(ctx); return err })})
	}
	if err := r.inTurn(ctx, all, max(r.N/4, 1), 3); err != nil {
		return err
	}
	r.showAll(all, func(row figure.Row) bool { return row.Name == rowNativeCapture }) // which "exec" reports
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
func (c call) run(ctx context.Context) (string, error) { return program.Output(ctx, c.command(ctx)) }

// end takes away what a rival keeps, also when the measurement was cancelled.
func (c call) end(ctx context.Context) {
	if c.close == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rivalCleanup)
	defer cancel()
	_ = c.close(ctx) // what is left is a rival's, in a directory that goes
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

// unshare is util-linux: namespaces and nothing else. It is the floor of
// everything that depends on namespaces.
var unshare = rival{
	name: "unshare",
	note: "namespaces alone: the whole host's files, no limits, no filter, no root of its own",
	prepare: func(_ context.Context, _ string, argv []string) (call, error) {
		path, err := program.Find("unshare")
		if err != nil {
			return call{}, err
		}
		args := append([]string{"--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--ipc", "--uts", "--cgroup",
			"--kill-child", "--mount-proc", "--"}, argv...)
		return call{command: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, path, args...) }}, nil
	},
}

// bubblewrap makes namespaces and a root of its own.
var bubblewrap = rival{
	name: "bwrap",
	note: "the same namespaces and a read-only root; no limits of memory, processors and processes, no filter, nothing hidden in /usr, one uid, no second command",
	prepare: func(_ context.Context, _ string, argv []string) (call, error) {
		path, err := program.Find("bwrap")
		if err != nil {
			return call{}, err
		}
		args := []string{"--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
			"--uid", "1000", "--gid", "1000", "--hostname", "sandbox",
			"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/workspace", "--dir", "/etc"}
		r := hostRoot()
		for _, t := range r.trees {
			args = append(args, "--ro-bind", t, t)
		}
		for link, target := range r.links {
			args = append(args, "--symlink", target, link)
		}
		args = slices.Concat(args, []string{"--"}, argv)
		return call{command: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, path, args...) }}, nil
	},
}

// docker starts a container by an engine that is running.
var docker = rival{
	name: "docker",
	note: "limits, its own filter and an image's root; a daemon with root rights, mostly no user namespace, nothing hidden in /usr",
	prepare: func(ctx context.Context, _ string, argv []string) (call, error) {
		path, err := program.Find("docker")
		if err != nil {
			return call{}, err
		}
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if _, err := program.Output(asked, exec.CommandContext(asked, path, "version", "--format", "{{.Server.Version}}")); err != nil {
			return call{}, err
		}
		r := hostRoot()
		image := "hortus-bench:" + strings.ToLower(string(api.NewOwnerID()))
		load := exec.CommandContext(ctx, path, "import", "-", image)
		if load.Stdin, err = r.archive(); err != nil {
			return call{}, err
		}
		if _, err := program.Output(ctx, load); err != nil {
			return call{}, err
		}
		args := []string{"run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--user", "1000:1000", "--cap-drop", "ALL",
			"--security-opt", "no-new-privileges", "--memory", "512m", "--pids-limit", "256", "--cpus", "1", "--label", image}
		for _, t := range r.trees {
			args = append(args, "--volume", t+":"+t+":ro")
		}
		args = slices.Concat(args, []string{image}, argv)
		return call{
			command: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, path, args...) },
			close: func(ctx context.Context) error {
				// A client that was killed may have left its container.
				ids, err := program.Output(ctx, exec.CommandContext(ctx, path, "ps", "--all", "--quiet", "--filter", "label="+image))
				if err != nil {
					return err
				}
				for _, id := range strings.Fields(ids) {
					if _, err := program.Output(ctx, exec.CommandContext(ctx, path, "rm", "--force", id)); err != nil {
						return err
					}
				}
				_, err = program.Output(ctx, exec.CommandContext(ctx, path, "rmi", "--force", image))
				return err
			},
		}, nil
	},
}

// archive is the skeleton of a root as a tar, which is an image's one layer.
func (r root) archive() (*bytes.Buffer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, d := range append([]string{"/proc", "/sys", "/dev", "/tmp", "/etc", "/workspace"}, r.trees...) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(d, "/") + "/", Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	for link, target := range r.links {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(link, "/"), Linkname: target, Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	return &b, w.Close()
}
