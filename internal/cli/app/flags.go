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
	DataDir  string `name:"data-dir" env:"HORTUS_DATA_DIR" complete:"dirs" placeholder:"DIR" group:"global" help:"Where state lives (default: /var/lib/hortus for root, ~/.local/share/hortus for others)."`
	Config   string `name:"config" env:"HORTUS_CONFIG" complete:"files" placeholder:"FILE" group:"global" help:"Configuration file; hortus config path shows which is read."`
	LogLevel Level  `name:"log-level" env:"HORTUS_LOG_LEVEL" placeholder:"LEVEL" group:"global" help:"What is logged, here on stderr and by the daemon in its log: debug, info, warn or error."`
	JSON     bool   `name:"json" env:"HORTUS_JSON" group:"global" help:"Answer with one JSON document on stdout."`
	Quiet    bool   `short:"q" env:"HORTUS_QUIET" group:"global" help:"No progress, no verdict: only output and errors."`
	Host     string `name:"host" env:"HORTUS_HOST" placeholder:"URL" group:"global" help:"Speak to the daemon that serves there, with the key of HORTUS_API_KEY or of a context; local for this machine's own."`
}
