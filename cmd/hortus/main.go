//go:build linux

// Hortus is the main binary: the commands, the daemon that they start and, if no
// small guest is embedded, the guest.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/agent/model/catalogue"
	"hortus.dev/internal/agent/model/offline"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/microvm/inside"
	"hortus.dev/internal/backend/microvm/kernel"
	"hortus.dev/internal/backend/wasm"
	wasmguest "hortus.dev/internal/backend/wasm/guest"
	wasmrun "hortus.dev/internal/backend/wasm/run"
	"hortus.dev/internal/cli"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/daemon/launch"
	"hortus.dev/internal/egress/check/probe"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/interpreter"
	"hortus.dev/internal/guest/sudo"
	"hortus.dev/internal/platform/embedded"
	"hortus.dev/internal/platform/gvisorbuild"
	"hortus.dev/internal/platform/privilege"
	"hortus.dev/internal/platform/version"
)

// dropPrivileges drops the privileges that a daemon does not need. A failure is only a
// warning, because the daemon works with them too.
func dropPrivileges() {
	if err := privilege.Drop(); err != nil {
		fmt.Fprintf(os.Stderr, "hortus: the daemon could not drop its privileges: %v\n", err)
	}
}

// buildGVisor returns a builder of gVisor from the source of this program.
func buildGVisor(dir string) (app.GVisor, error) {
	source, err := gvisorbuild.Source()
	if err != nil {
		return nil, err
	}
	return gvisorbuild.New(gvisorbuild.Config{Source: source, Dir: dir}), nil
}

// probeProgram returns the program that tests outgoing connections in a sandbox: the small guest,
// or this executable, which serves as the guest if none is embedded.
func probeProgram() ([]byte, error) {
	if guest := embedded.Guest(); len(guest) > 0 {
		return guest, nil
	}
	return os.ReadFile("/proc/self/exe")
}

// installKernel installs the kernel of virtual machines.
func installKernel(ctx context.Context, dir, file, digest string) (release, sum string, err error) {
	k, err := kernel.Install(ctx, dir, file, digest)
	return k.Release, k.Digest, err
}

// modelAtHand finds a model with the variables of this process.
func modelAtHand(ctx context.Context, keySecrets map[string]string) (admin.ModelReport, bool) {
	models, err := catalogue.New(catalogue.Config{Getenv: os.Getenv, KeySecrets: keySecrets})
	if err != nil {
		return admin.ModelReport{}, false
	}
	return models.AtHand(ctx)
}

func main() {
	switch name := filepath.Base(os.Args[0]); {
	case name == initns.Argv0:
		os.Exit(initns.Become(guest.Main))
	case os.Args[0] == inside.Argv0:
		os.Exit(inside.Main())
	case name == birth.Argv0:
		os.Exit(guest.Main())
	case name == wasmguest.Argv0:
		os.Exit(wasmguest.Main())
	case name == wasmrun.Argv0:
		os.Exit(wasmrun.Main())
	case name == sudo.Argv0:
		os.Exit(sudo.Main())
	case name == interpreter.Argv0:
		os.Exit(interpreter.Main())
	case name == probe.Argv0:
		os.Exit(probe.Main())
	case len(os.Args) > 2 && os.Args[1] == "daemon" && os.Args[2] == "run":
		dropPrivileges()
		os.Exit(daemon.Main(os.Args[3:]))
	}
	env := app.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, UID: os.Getuid(), Version: version.Describe,
		Catalogue: offline.Catalogue, ModelAtHand: modelAtHand, Inspect: datadir.Inspect, Remove: datadir.Remove, AwaitStop: launch.AwaitStop, BuildGVisor: buildGVisor, GoRun: gvisorbuild.GoRun, Probe: probeProgram, InstallPython: wasm.InstallPython, InstallKernel: installKernel,
		MigrateStore: func(ctx context.Context, opt app.MigrateOptions) (string, error) {
			return daemon.MigrateStore(ctx, daemon.MigrateOptions(opt))
		},
		Serve: func(ctx context.Context, opt app.ServeOptions) error {
			dropPrivileges()
			return daemon.Resident(ctx, daemon.ResidentOptions(opt))
		}}
	os.Exit(cli.Main(context.Background(), os.Args[1:], env, func(ctx context.Context, opt app.ConnectOptions) (*client.Client, error) {
		if opt.MustRun {
			return client.Unix(datadir.Dir(opt.DataDir).Socket()), nil
		}
		return daemon.Connect(ctx, daemon.ConnectOptions{
			Options: launch.Options{DataDir: opt.DataDir, ConfigFile: opt.ConfigFile, Settings: opt.Settings},
			Models:  opt.Models, Forges: opt.Forges, TokenVariables: opt.TokenVariables,
		})
	}))
}
