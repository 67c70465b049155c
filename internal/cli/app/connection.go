package app

import (
	"context"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
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
