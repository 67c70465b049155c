package task

import (
	"hortus.dev/internal/cli/flags"
)

// taskFlags say how a task works.
type taskFlags struct {
	Timeout        flags.Duration `env:"HORTUS_TIMEOUT" placeholder:"DURATION" help:"How long the program may run (default 30s)."`
	InstallTimeout flags.Duration `name:"install-timeout" env:"HORTUS_INSTALL_TIMEOUT" placeholder:"DURATION" help:"How long installing and compiling may take (default 2m)."`
	Out            string         `name:"out" complete:"dirs" placeholder:"DIR" help:"Write the verified program's files there."`
	Detach         bool           `short:"d" help:"Start it, print its id and return; hortus task watch ID follows it."`
	Keep           bool           `help:"Leave the last attempt's sandbox alive until its time is up."`
}

// modelFlag names the models.
type modelFlag struct {
	Model modelNames `env:"HORTUS_MODEL" placeholder:"NAME" help:"Model that plans and writes: offline (no network), anthropic, openai, anthropic:MODEL, openai:MODEL, or replay:FILE for the answers of a recording. planner=NAME,coder=NAME,debugger=NAME,large=NAME names one for each role."`
}
