package app

import (
	"log/slog"

	"github.com/alecthomas/kong"

	"hortus.dev/internal/platform/config"
)

// Resolve sets a flag that is not on the command line to its value: the
// environment's, or else the configuration file's.
func (a *App) Resolve(k *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Tag.Envs {
		text := ""
		if v, ok := a.LoadConfig(k).ByEnv(name); !ok {
			text = a.Getenv(name)
		} else if v.Origin.Kind != config.FromDefault {
			text = v.Text
		}
		if text != "" {
			return text, nil
		}
	}
	return nil, nil
}

// Getenv returns a variable of the environment.
func (a *App) Getenv(name string) string {
	if a.Env.Getenv == nil {
		return ""
	}
	return a.Env.Getenv(name)
}

// LoadConfig reads the configuration, once. What is wrong with it is kept for later:
// some commands do without.
func (a *App) LoadConfig(k *kong.Context) *config.Config {
	if a.Config != nil {
		return a.Config
	}
	src := config.Source{Getenv: a.Getenv, UID: a.Env.UID}
	for _, f := range k.Flags() {
		if f.Name == "config" {
			src.File, _ = k.FlagValue(f).(string)
		}
	}
	if a.Config, a.ConfigErr = config.Load(src); a.ConfigErr != nil {
		// Nothing but defaults.
		a.Config, _ = config.Load(config.Source{UID: 1})
	}
	return a.Config
}

// StartLog begins the log of this command.
func (a *App) StartLog() {
	l := slog.LevelInfo
	if name := a.Flags.LogLevel; name != "" {
		_ = l.UnmarshalText([]byte(name)) // its parser has checked it
	}
	a.log = slog.New(slog.NewTextHandler(a.Env.Stderr, &slog.HandlerOptions{Level: l}))
	a.log.Debug("configuration", "file", a.Config.Path, "found", a.Config.Found)
}

// Log is the log of this command, on its stderr.
func (a *App) Log() *slog.Logger { return a.log }

// DataDir is the data directory that is meant.
func (a *App) DataDir() (string, error) {
	if a.Flags.DataDir != "" {
		return a.Flags.DataDir, nil
	}
	return config.DefaultDataDir(config.Source{Getenv: a.Getenv, UID: a.Env.UID})
}
