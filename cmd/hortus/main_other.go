//go:build !linux

// Hortus, on systems other than Linux, has only the commands. They connect to a daemon
// on another machine, over its API or a forwarded socket.
package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/agent/model/offline"
	"hortus.dev/internal/cli"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/platform/version"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "daemon" && os.Args[2] == "run" {
		os.Stderr.WriteString("hortus: sandboxes need Linux; this machine can only be a client for " + runtime.GOOS + "\n")
		os.Exit(1)
	}
	env := app.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, UID: os.Getuid(), Version: version.Describe, Catalogue: offline.Catalogue}
	os.Exit(cli.Main(context.Background(), os.Args[1:], env, connect))
}

// connect connects to a running daemon. It cannot start one.
func connect(ctx context.Context, opt app.ConnectOptions) (*client.Client, error) {
	socket := filepath.Join(opt.DataDir, "hortus.sock")
	c := client.Unix(socket)
	if opt.MustRun {
		return c, nil
	}
	if _, err := c.Info(ctx); err != nil {
		c.Close()
		return nil, api.Errorf(api.KindUnsupported, "sandboxes require Linux, and no daemon responds at %s: %w", socket, err).
			WithHint("run hortus on a Linux machine or in WSL2, or forward the socket of a daemon: ssh -N -L %s:/var/lib/hortus/hortus.sock HOST", socket)
	}
	return c, nil
}
