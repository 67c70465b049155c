package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/platform/config"
)

// Last names the newest task, plan or workspace, or the newest sandbox that lives.
const Last = "last"

// App is one run of one command.
type App struct {
	Env     Env
	Flags   *Flags
	Connect Connect
	conn    *client.Client
	log     *slog.Logger

	Config    *config.Config
	ConfigErr error
	Parsed    *kong.Context
	// models says that the daemon must have the keys of models that are set here.
	NeedModels bool
	// forges says the same of the tokens of forges.
	NeedForges bool
}

// New makes the run of a command, before its flags are parsed.
func New(env Env, connect Connect) *App {
	return &App{Env: env, Flags: &Flags{}, Connect: connect, log: slog.New(slog.DiscardHandler)}
}

// Context carries the context through the parser, which binds by type.
type Context struct{ context.Context }

// Level is a log level's name.
type Level string

// UnmarshalText reads one of config.Levels.
func (l *Level) UnmarshalText(text []byte) error {
	*l = Level(text)
	if slices.Contains(config.Levels(), string(text)) {
		return nil
	}
	return api.Errorf(api.KindInvalid, "%.40q is not one of %s", text, strings.Join(config.Levels(), ", "))
}

// Flags are the flags of every command.
type Flags struct {
	DataDir  string `name:"data-dir" env:"HORTUS_DATA_DIR" complete:"dirs" placeholder:"DIR" group:"global" help:"Data directory (default: /var/lib/hortus for root, ~/.local/share/hortus for others)."`
	Config   string `name:"config" env:"HORTUS_CONFIG" complete:"files" placeholder:"FILE" group:"global" help:"Configuration file; hortus config path shows which one is read."`
	LogLevel Level  `name:"log-level" env:"HORTUS_LOG_LEVEL" placeholder:"LEVEL" group:"global" help:"Minimum level of log messages on stderr and in the daemon's log: debug, info, warn or error."`
	JSON     bool   `name:"json" env:"HORTUS_JSON" group:"global" help:"Print one JSON document on stdout."`
	Quiet    bool   `short:"q" env:"HORTUS_QUIET" group:"global" help:"Print output and errors only; no progress, no verdict."`
	Host     string `name:"host" env:"HORTUS_HOST" placeholder:"URL" group:"global" help:"URL or context of the daemon to use, with the API key of HORTUS_API_KEY or of the context; local for this machine's own daemon."`
}

// Resolve sets a flag that is not on the command line to its value: the
// environment's, or else the configuration file's.
func (a *App) Resolve(k *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Tag.Envs {
		text := ""
		if v, ok := a.LoadConfig(k).ByEnv(name); !ok {
			text = a.Getenv(name)
		} else if v.Origin.Kind != config.FromDefault && !(v.Setting.Daemon && v.Origin.Kind == config.FromFile) {
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

// ExitCode ends a command with a code and without a message.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Failure is an error that ends a command with a code of its own.
type Failure struct {
	Code int
	Err  error
}

func (f *Failure) Error() string { return f.Err.Error() }

func (f *Failure) Unwrap() error { return f.Err }

// Missing adds to the error about what does not exist which command lists what does. Other errors,
// and those that have a hint, stay as they are.
func Missing(err error, list string) error {
	if api.KindOf(err) != api.KindNotFound || api.HintOf(err) != "" {
		return err
	}
	return api.Errorf(api.KindNotFound, "%w", err).WithHint("to list them: %s", list)
}
