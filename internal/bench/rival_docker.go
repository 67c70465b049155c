package bench

import (
	"archive/tar"
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
)

// docker starts a container by an engine that is running.
var docker = rival{
	name: "docker",
	note: "limits, its own filter and an image's root; a daemon with root rights, mostly no user namespace, nothing hidden in /usr",
	prepare: func(ctx context.Context, _ string, argv []string) (call, error) {
		program, err := find("docker")
		if err != nil {
			return call{}, err
		}
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if _, err := output(exec.CommandContext(asked, program, "version", "--format", "{{.Server.Version}}")); err != nil {
			return call{}, err
		}
		r := hostRoot()
		image := "hortus-bench:" + strings.ToLower(string(api.NewOwnerID()))
		load := exec.CommandContext(ctx, program, "import", "-", image)
		if load.Stdin, err = r.archive(); err != nil {
			return call{}, err
		}
		if _, err := output(load); err != nil {
			return call{}, err
		}
		args := []string{"run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--user", "1000:1000", "--cap-drop", "ALL",
			"--security-opt", "no-new-privileges", "--memory", "512m", "--pids-limit", "256", "--cpus", "1", "--label", image}
		for _, t := range r.trees {
			args = append(args, "--volume", t+":"+t+":ro")
		}
		args = slices.Concat(args, []string{image}, argv)
		return call{
			command: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, program, args...) },
			close: func(ctx context.Context) error {
				// A client that was killed may have left its container.
				ids, err := output(exec.CommandContext(ctx, program, "ps", "--all", "--quiet", "--filter", "label="+image))
				if err != nil {
					return err
				}
				for _, id := range strings.Fields(ids) {
					if _, err := output(exec.CommandContext(ctx, program, "rm", "--force", id)); err != nil {
						return err
					}
				}
				_, err = output(exec.CommandContext(ctx, program, "rmi", "--force", image))
				return err
			},
		}, nil
	},
}

// output runs a command that is not measured.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return "", failure(err, stderr.String())
	}
	return stdout.String(), nil
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
