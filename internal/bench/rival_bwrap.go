package bench

import (
	"context"
	"os/exec"
	"slices"
)

// bubblewrap makes namespaces and a root of its own.
var bubblewrap = rival{
	name: "bwrap",
	note: "the same namespaces and a read-only root; no limits of memory, processors and processes, no filter, nothing hidden in /usr, one uid, no second command",
	prepare: func(_ context.Context, _ string, argv []string) (call, error) {
		program, err := find("bwrap")
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
		return call{command: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, program, args...) }}, nil
	},
}
