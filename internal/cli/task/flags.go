package task

import (
	"hortus.dev/internal/cli/flags"
)

// taskFlags say how a task works.
type taskFlags struct {
	Timeout        flags.Duration `env:"HORTUS_TIMEOUT" placeholder:"DURATION" help:"Timeout of the program (default 30s)."`
	InstallTimeout flags.Duration `name:"install-timeout" env:"HORTUS_INSTALL_TIMEOUT" placeholder:"DURATION" help:"Timeout of installing and compiling (default 2m)."`
	SetupEgress    []string       `name:"setup-egress" sep:"none" env:"HORTUS_SETUP_EGRESS" placeholder:"VALUE" help:"What the install command may connect to: the package registry of the program's language (default), none, or values of --egress. Repeatable; docs/egress.md."`
	Out            string         `name:"out" complete:"dirs" placeholder:"DIR" help:"Directory to write the verified program's files to."`
	Detach         bool           `short:"d" help:"Start the task, print its ID and return. hortus task watch ID follows it."`
	Keep           bool           `help:"Keep the last attempt's sandbox until its time to live ends."`
}

// modelFlag names the models.
type modelFlag struct {
	Model modelNames `env:"HORTUS_MODEL" placeholder:"NAME" help:"Model: offline (built in, no network), anthropic, openai, anthropic:MODEL, openai:MODEL, or replay:FILE (a recording). planner=NAME,coder=NAME,debugger=NAME,large=NAME sets a model for each role."`
}
