package bench

import (
	"context"
	"os/exec"
)

// unshare is util-linux: namespaces and nothing else. It is the floor of
// everything that stands on namespaces.
var unshare = rival{
	name: "unshare",
	note: "namespaces alone: the whole host's files, no limits, no filter, no root of its own",
	prepare: func(_ context.Context, _ string, argv []string) (call, error) {
		program, err := find("unshare")
		if err != nil {
			return call{}, err
		}
		args := append([]string{"--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--ipc", "--uts", "--cgroup",
			"--kill-child", "--mount-proc", "--"}, argv...)
		return call{command: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, program, args...) }}, nil
	},
}
