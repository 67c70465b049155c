package app

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/contexts"
	"hortus.dev/internal/platform/config"
)

// contextsPath is in the user's own configuration directory, for root too: keys are a
// person's, not a machine's.
func (a *App) contextsPath() (string, error) {
	uid := a.Env.UID
	if uid == 0 {
		uid = 1
	}
	path := config.DefaultPath(config.Source{Getenv: a.Getenv, UID: uid, OS: runtime.GOOS})
	if path == "" {
		return "", api.Errorf(api.KindInvalid, "no home directory for the contexts file").WithHint("name the daemon: --host URL, with HORTUS_API_KEY")
	}
	return filepath.Join(filepath.Dir(path), "contexts.json"), nil
}

// Contexts reads the file of contexts.
func (a *App) Contexts() (contexts.File, error) {
	path, err := a.contextsPath()
	if err != nil {
		return contexts.File{}, err
	}
	return contexts.Load(path)
}

// ChangeContexts has the file of contexts changed, by one command at a time.
func (a *App) ChangeContexts(ctx context.Context, change func(*contexts.File) error) error {
	path, err := a.contextsPath()
	if err != nil {
		return err
	}
	return contexts.Change(ctx, path, change)
}

// Remote returns what commands speak to when it is not this machine's own daemon.
func (a *App) Remote() (contexts.Daemon, bool, error) {
	name := a.Flags.Host
	named := name != ""
	if name == contexts.Local {
		return contexts.Daemon{}, false, nil
	}
	if dir := a.Given("data-dir"); dir {
		// Anyone who names a directory means the daemon of that directory.
		if named && a.Given("host") {
			return contexts.Daemon{}, false, &Failure{2, api.Errorf(api.KindInvalid, "--data-dir and --host exclude each other").WithHint("give one of them")}
		}
		return contexts.Daemon{}, false, nil
	}
	if strings.Contains(name, "://") {
		r := contexts.Daemon{Host: name, Key: a.Getenv("HORTUS_API_KEY")}
		if r.Key == "" && a.Getenv("E2B_API_URL") == name {
			// The key of E2B's variables is for the address of E2B's variables alone.
			r.Key = a.Getenv("E2B_API_KEY")
		}
		if r.Key == "" {
			return r, true, api.Errorf(api.KindUnauthenticated, "no API key for %.100s", name).
				WithHint("set HORTUS_API_KEY, or store one: hortus context add NAME --host %.100s --key-file FILE", name)
		}
		return r, true, nil
	}
	all, err := a.Contexts()
	if err != nil {
		if !named && api.KindOf(err) == api.KindInvalid && a.Getenv("HOME") == "" {
			return contexts.Daemon{}, false, nil // nowhere to keep any
		}
		return contexts.Daemon{}, false, err
	}
	if !named {
		name = all.Current
	}
	if name == "" || name == contexts.Local {
		return contexts.Daemon{}, false, nil
	}
	r, ok := all.Contexts[name]
	if !ok {
		return r, false, contexts.NotFound(name)
	}
	return r, true, nil
}

// Given reports whether a flag is on the command line itself.
func (a *App) Given(flag string) bool {
	if a.Parsed == nil {
		return false
	}
	for _, p := range a.Parsed.Path {
		if p.Flag != nil && p.Flag.Name == flag && !p.Resolved {
			return true
		}
	}
	return false
}

// dialRemote connects to a daemon of another machine.
func (a *App) dialRemote(r contexts.Daemon) (*client.Client, error) {
	c, err := client.Remote(r.Host, r.Key)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(r.Host); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		a.Note("warning: %s is not encrypted; others on the network can read the API key", u.Host)
	}
	a.log.Debug("daemon", "host", r.Host)
	return c, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
