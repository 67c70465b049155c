package app

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/contexts"
	"hortus.dev/internal/platform/config"
)

// connectOptions returns which daemon is meant, and what it is to be set to.
func (a *App) connectOptions() (opt ConnectOptions, err error) {
	if opt.DataDir, err = a.DataDir(); err != nil {
		return opt, err
	}
	if a.Flags.Config != "" {
		// The daemon has another working directory.
		if opt.ConfigFile, err = filepath.Abs(a.Flags.Config); err != nil {
			return opt, api.Errorf(api.KindInvalid, "--config: %w", err)
		}
	}
	opt.Settings.LogLevel = string(a.Flags.LogLevel)
	if v := a.Config.Get("daemon.idle"); v.Origin.Kind != config.FromDefault {
		d, err := config.ParseStay(v.Text)
		if err != nil {
			return opt, err
		}
		ms := d.Milliseconds()
		if d < 0 {
			ms = -1
		}
		opt.Settings.IdleMS = &ms
	}
	return opt, nil
}

// RunningClient returns the connection to a daemon that runs already.
func (a *App) RunningClient(ctx context.Context) (*client.Client, error) {
	opt, err := a.connectOptions()
	if err != nil {
		return nil, err
	}
	opt.MustRun = true
	c, err := a.Connect(ctx, opt)
	if err == nil {
		a.conn = c
	}
	return c, err
}

// GVisor returns the builder of the data directory's gVisor.
func (a *App) GVisor() (GVisor, error) {
	if v := a.Env.Version(); v.GVisor != "" {
		return nil, api.Errorf(api.KindConflict, "this binary includes gVisor %s", v.GVisor).WithHint("nothing to build; see: hortus doctor")
	}
	if a.Env.BuildGVisor == nil {
		return nil, api.Errorf(api.KindUnsupported, "gVisor runs on Linux only").WithHint("build it on the machine of the daemon")
	}
	dir, err := a.DataDir()
	if err != nil {
		return nil, err
	}
	return a.Env.BuildGVisor(filepath.Join(dir, "bin"))
}

// Disconnect ends the connection to the daemon, if there is one.
func (a *App) Disconnect() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

// Client returns the connection to the daemon, which may start it.
func (a *App) Client(ctx context.Context) (*client.Client, error) {
	if a.conn == nil {
		if r, is, err := a.Remote(); err != nil || is {
			if err == nil {
				a.conn, err = a.dialRemote(r)
			}
			return a.conn, err
		}
		opt, err := a.connectOptions()
		if err != nil {
			return nil, err
		}
		opt.Models = a.NeedModels
		if opt.Forges = a.NeedForges; opt.Forges {
			hosts, err := a.Config.Forges()
			if err != nil {
				return nil, err
			}
			for _, h := range hosts {
				if h.TokenEnv != "" {
					opt.TokenVariables = append(opt.TokenVariables, h.TokenEnv)
				}
			}
		}
		began := time.Now()
		c, err := a.Connect(ctx, opt)
		a.log.Debug("daemon", "dataDir", opt.DataDir, "took", time.Since(began), "error", err)
		if err != nil {
			return nil, err
		}
		a.conn = c
	}
	return a.conn, nil
}

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
