package app

import (
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
)

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
