package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/platform/config"
)

// level is a log level's name.
type level string

// UnmarshalText reads one of config.Levels.
func (l *level) UnmarshalText(text []byte) error {
	*l = level(text)
	if slices.Contains(config.Levels(), string(text)) {
		return nil
	}
	return api.Errorf(api.KindInvalid, "%.40q is not one of %s", text, strings.Join(config.Levels(), ", "))
}

// resolve gives a flag that is not on the command line its value: the
// environment's, or else the configuration file's.
func (a *app) resolve(k *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Tag.Envs {
		text := ""
		if v, ok := a.config(k).ByEnv(name); !ok {
			text = a.getenv(name)
		} else if v.Origin.Kind != config.FromDefault {
			text = v.Text
		}
		if text != "" {
			return text, nil
		}
	}
	return nil, nil
}

func (a *app) getenv(name string) string {
	if a.env.Getenv == nil {
		return ""
	}
	return a.env.Getenv(name)
}

// config reads the configuration, once. What is wrong with it is kept for later:
// some commands do without.
func (a *app) config(k *kong.Context) *config.Config {
	if a.conf != nil {
		return a.conf
	}
	src := config.Source{Getenv: a.getenv, UID: a.env.UID}
	for _, f := range k.Flags() {
		if f.Name == "config" {
			src.File, _ = k.FlagValue(f).(string)
		}
	}
	if a.conf, a.confErr = config.Load(src); a.confErr != nil {
		// Nothing but defaults.
		a.conf, _ = config.Load(config.Source{UID: 1})
	}
	return a.conf
}

// ignoresConfig says whether a command works whatever the configuration says.
func ignoresConfig(k *kong.Context) bool {
	if k == nil || k.Selected() == nil || !k.Selected().Target.CanAddr() {
		return false
	}
	_, ok := k.Selected().Target.Addr().Interface().(interface{ WithoutConfig() })
	return ok
}

func (*versionCmd) WithoutConfig()    {}
func (*configPathCmd) WithoutConfig() {}

// startLog begins the log of this command.
func (a *app) startLog() {
	l := slog.LevelInfo
	if name := a.opt.LogLevel; name != "" {
		_ = l.UnmarshalText([]byte(name)) // its parser has checked it
	}
	a.log = slog.New(slog.NewTextHandler(a.env.Stderr, &slog.HandlerOptions{Level: l}))
	a.log.Debug("configuration", "file", a.conf.Path, "found", a.conf.Found)
}

// dataDir is the data directory that is meant.
func (a *app) dataDir() (string, error) {
	if a.opt.DataDir != "" {
		return a.opt.DataDir, nil
	}
	return config.DefaultDataDir(config.Source{Getenv: a.getenv, UID: a.env.UID})
}

// connectOptions says which daemon is meant, and what it is to be set to.
func (a *app) connectOptions() (opt ConnectOptions, err error) {
	if opt.DataDir, err = a.dataDir(); err != nil {
		return opt, err
	}
	if a.opt.Config != "" {
		// The daemon has another working directory.
		if opt.ConfigFile, err = filepath.Abs(a.opt.Config); err != nil {
			return opt, api.Errorf(api.KindInvalid, "--config: %w", err)
		}
	}
	opt.Settings.LogLevel = string(a.opt.LogLevel)
	if v := a.conf.Get("daemon.idle"); v.Origin.Kind != config.FromDefault {
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

// running gives the connection to a daemon that runs already.
func (a *app) running(ctx context.Context) (*client.Client, error) {
	opt, err := a.connectOptions()
	if err != nil {
		return nil, err
	}
	opt.MustRun = true
	c, err := a.connect(ctx, opt)
	if err == nil {
		a.conn = c
	}
	return c, err
}

type configCmd struct {
	Show configShowCmd `cmd:"" help:"Show every setting, its value and its origin."`
	Path configPathCmd `cmd:"" help:"Print the name of the configuration file."`
}

type configPathCmd struct{}

// Run prints the file's name, whether it is there or not.
func (*configPathCmd) Run(a *app) error {
	src := config.Source{Getenv: a.getenv, UID: a.env.UID}
	path := a.opt.Config
	if path == "" {
		path = a.getenv("HORTUS_CONFIG")
	}
	if path == "" {
		path = config.DefaultPath(src)
	}
	if path == "" {
		return api.Errorf(api.KindInvalid, "there is no home directory to look for a configuration in").WithHint("name a file: --config FILE")
	}
	if a.opt.JSON {
		return a.json(map[string]string{"path": path})
	}
	_, err := fmt.Fprintln(a.env.Stdout, path)
	return err
}

type configShowCmd struct{}

// Run shows every setting.
func (*configShowCmd) Run(a *app) error {
	all := a.conf.All()
	for _, p := range a.parsed.Path {
		if p.Flag == nil || p.Resolved {
			continue
		}
		for i, v := range all {
			if v.Setting.Flag == p.Flag.Name {
				all[i].Text, all[i].Origin = fmt.Sprint(a.parsed.FlagValue(p.Flag)), config.Origin{Kind: config.FromFlag, Name: p.Flag.Name}
			}
		}
	}
	if a.opt.JSON {
		return a.json(struct {
			Path     string         `json:"path"`
			Found    bool           `json:"found"`
			Settings []config.Value `json:"settings"`
		}{a.conf.Path, a.conf.Found, all})
	}
	found := ""
	if !a.conf.Found {
		found = " (there is none)"
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	_, err := fmt.Fprintf(w, "# file: %s%s\nSETTING\tVALUE\tORIGIN\tVARIABLE\n", clean(a.conf.Path), found)
	for _, v := range all {
		text := v.Text
		if text == "" {
			text = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Setting.Key, clean(text), clean(v.Origin.String()), v.Setting.Env)
	}
	return errors.Join(err, w.Flush())
}
