package agent

import (
	"context"
	"maps"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/platform/language"
)

// quietly are variables for installers: they ask nothing, and connect to nothing but their
// registry. A sandbox is thrown away, so its own Python may be changed.
func quietly() map[string]string {
	return map[string]string{
		"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_NO_CACHE_DIR": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore",
		"npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false",
		"PIP_RETRIES": "2", "npm_config_fetch_retries": "2", "npm_config_fetch_retry_mintimeout": "1000", "npm_config_fetch_retry_maxtimeout": "4000",
		"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false",
	}
}

// packages is what a command of a program begins with, if the program installs anything: pip
// then installs into a directory next to a Python program, which Python searches. The
// sandbox's own Python may belong to the host, and pip may refuse to change it.
func packages(a api.CodeArtifact) string {
	if a.Install == "" || a.Language != api.Python {
		return ""
	}
	const dir = `"$PWD/.packages`
	out := "export PYTHONPATH=" + dir + `${PYTHONPATH:+:$PYTHONPATH}"`
	if !strings.Contains(a.Install, "--user") && !strings.Contains(a.Install, "--target") {
		out += " PIP_TARGET=" + dir + `"`
	}
	return out + "; "
}

// setup returns what a sandbox may connect to while the install command of a program in a
// language runs, and whether that was requested.
func (e *Executor) setup(l api.Language) (p api.EgressPolicy, requested bool) {
	if e.cfg.Setup != nil {
		return *e.cfg.Setup, true
	}
	if known, ok := language.Of(l); ok && known.Registry != "" {
		p.Presets = []string{known.Registry}
	}
	return p, false
}

// install runs the install command with the policy of the setup phase. When it returns, the
// policy of the run phase is in effect and no connection is open. done is false if the
// command failed; res says how.
func (e *Executor) install(ctx context.Context, box Sandbox, p Pass, timeout time.Duration, res api.ExecutionResult) (_ api.ExecutionResult, done bool, err error) {
	res.Phase = api.PhaseInstall
	env, closed, shut, err := e.open(ctx, box, p.Artifact.Language)
	if err != nil {
		return res, false, err
	}
	// What an installer prints is no output of the program.
	out, errs := &observe.Capture{Whole: p.Stderr}, &observe.Capture{Whole: p.Stderr}
	ex, ms, err := e.command(ctx, box, p, api.PhaseInstall, p.Artifact.Install, timeout, env, out, errs)
	res.InstallMS, res.Exit = ms, ex.Exit
	done = err == nil && ex.Exit.Code == 0 && ex.Exit.Cause == ""
	if err == nil {
		if err = shut(ctx); err != nil && ex.Exit.Cause != "" {
			// A limit ends the whole sandbox. One that is still there does not stay open.
			err = e.Release(ctx)
		}
	}
	if err != nil || done {
		return res, done, err
	}
	fill(&res, out, errs)
	res.Category = observe.Categorize(api.PhaseInstall, ex.Exit, res.Stderr)
	res.Missing = observe.Missing(p.Artifact.Language, res.Category, res.Stderr)
	if f := observe.Uninstalled(p.Artifact.Language, res.Stderr); ex.Exit.Cause == "" && f.Failed {
		res.Missing, res.Detail = f.Package, f.Sentence(closed)
	}
	return res, false, nil
}

// allow says how the install command of a program in a language gets to its registry.
func allow(l api.Language) string {
	if known, ok := language.Of(l); ok && known.Registry != "" {
		return "to allow the package registry: --setup-egress " + known.Registry
	}
	return "to allow a host: --setup-egress HOST"
}

// hopeless has installers give up at once, for a command that cannot connect to anything.
func hopeless(env map[string]string) map[string]string {
	env["PIP_RETRIES"], env["npm_config_fetch_retries"] = "0", "0"
	return env
}

// open begins the setup phase. It returns the variables of the install command, why the
// command cannot connect to anything, or "", and what ends the phase.
func (e *Executor) open(ctx context.Context, box Sandbox, l api.Language) (env map[string]string, closed string, shut func(context.Context) error, err error) {
	env = quietly()
	defer func() {
		maps.DeleteFunc(env, func(name, _ string) bool { _, given := e.cfg.Sandbox.Env[name]; return given })
	}()
	shut = func(context.Context) error { return nil }
	info := box.Info()
	if info.Egress == api.EgressHost {
		return env, "", shut, nil
	}
	var run api.EgressPolicy
	if info.EgressPolicy != nil {
		run = *info.EgressPolicy
	}
	setup, requested := e.setup(l)
	if !setup.Opens() {
		closed = "the install phase may not connect to anything; " + allow(l)
	}
	if !setup.Opens() && !run.Opens() {
		return hopeless(env), closed, shut, nil
	}
	more, err := box.SetEgress(ctx, setup)
	if api.KindOf(err) == api.KindUnsupported && !requested {
		return hopeless(env), err.Error(), shut, nil
	}
	if err != nil {
		return env, closed, shut, err
	}
	maps.Copy(env, more)
	return env, closed, func(ctx context.Context) error {
		// First nothing, which closes also those connections that the run phase allows.
		_, err := box.SetEgress(ctx, api.EgressPolicy{})
		if err == nil && !run.IsZero() {
			_, err = box.SetEgress(ctx, run)
		}
		return err
	}, nil
}
