package cli

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/platform/config"
)

// local marks the commands that are about this machine, whatever daemon others speak
// to. The text names the command.
type local interface{ OnlyHere() string }

func (*stopCmd) OnlyHere() string      { return "hortus daemon stop" }
func (*statusCmd) OnlyHere() string    { return "hortus daemon status" }
func (*unitCmd) OnlyHere() string      { return "hortus daemon unit" }
func (*uninstallCmd) OnlyHere() string { return "hortus uninstall" }

// checkHere refuses --host for a command that could only ignore it. A context that is
// in use is no such word: it is about the commands that it can be about.
func checkHere(a *app) error {
	node := a.parsed.Selected()
	if a.opt.Host == "" || a.opt.Host == localContext || node == nil || !node.Target.CanAddr() {
		return nil
	}
	if c, ok := node.Target.Addr().Interface().(local); ok {
		return &failure{2, api.Errorf(api.KindInvalid, "%s is about this machine alone; it cannot be told a --host", c.OnlyHere()).
			WithHint("run it on that machine; or leave out --host, and unset HORTUS_HOST")}
	}
	return nil
}

// contextsPath is in the user's own configuration directory, for root too: keys are a
// person's, not a machine's.
func (a *app) contextsPath() (string, error) {
	uid := a.env.UID
	if uid == 0 {
		uid = 1
	}
	path := config.DefaultPath(config.Source{Getenv: a.getenv, UID: uid, OS: runtime.GOOS})
	if path == "" {
		return "", api.Errorf(api.KindInvalid, "there is no home directory to keep contexts in").WithHint("name the daemon: --host URL, with HORTUS_API_KEY")
	}
	return filepath.Join(filepath.Dir(path), "contexts.json"), nil
}

// contexts reads the file of contexts.
func (a *app) contexts() (contexts, error) {
	path, err := a.contextsPath()
	if err != nil {
		return contexts{}, err
	}
	return loadContexts(path)
}

// changeContexts has the file of contexts changed, by one command at a time.
func (a *app) changeContexts(ctx context.Context, change func(*contexts) error) error {
	path, err := a.contextsPath()
	if err != nil {
		return err
	}
	return changeContexts(ctx, path, change)
}

// far gives what commands speak to when it is not this machine's own daemon.
func (a *app) far() (remote, bool, error) {
	name := a.opt.Host
	named := name != ""
	if name == localContext {
		return remote{}, false, nil
	}
	if dir := a.given("data-dir"); dir {
		// Whoever names a directory means the daemon of that directory.
		if named && a.given("host") {
			return remote{}, false, &failure{2, api.Errorf(api.KindInvalid, "--data-dir and --host name two daemons").WithHint("give one of them")}
		}
		return remote{}, false, nil
	}
	if strings.Contains(name, "://") {
		r := remote{Host: name, Key: a.getenv("HORTUS_API_KEY")}
		if r.Key == "" && a.getenv("E2B_API_URL") == name {
			// The key of E2B's variables is for the address of E2B's variables alone.
			r.Key = a.getenv("E2B_API_KEY")
		}
		if r.Key == "" {
			return r, true, api.Errorf(api.KindUnauthenticated, "there is no API key for %.100s", name).
				WithHint("set HORTUS_API_KEY, or keep one: hortus context add NAME --host %.100s --key-file FILE", name)
		}
		return r, true, nil
	}
	all, err := a.contexts()
	if err != nil {
		if !named && api.KindOf(err) == api.KindInvalid && a.getenv("HOME") == "" {
			return remote{}, false, nil // nowhere to keep any
		}
		return remote{}, false, err
	}
	if !named {
		name = all.Current
	}
	if name == "" || name == localContext {
		return remote{}, false, nil
	}
	r, ok := all.Contexts[name]
	if !ok {
		return r, false, noContext(name)
	}
	return r, true, nil
}

// given says whether a flag stands on the command line itself.
func (a *app) given(flag string) bool {
	if a.parsed == nil {
		return false
	}
	for _, p := range a.parsed.Path {
		if p.Flag != nil && p.Flag.Name == flag && !p.Resolved {
			return true
		}
	}
	return false
}

// farClient connects to a daemon of another machine.
func (a *app) farClient(r remote) (*client.Client, error) {
	c, err := client.Remote(r.Host, r.Key)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(r.Host); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		a.note("warning: %s is not encrypted; the API key can be read on the way", u.Host)
	}
	a.log.Debug("daemon", "host", r.Host)
	return c, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
