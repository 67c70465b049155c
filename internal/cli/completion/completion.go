package completion

import (
	_ "embed"
	"io"
	"path/filepath"

	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/install"
)

//go:embed scripts/hortus.bash
var bashScript string

//go:embed scripts/hortus.zsh
var zshScript string

//go:embed scripts/hortus.fish
var fishScript string

// Command is "hortus completion".
type Command struct {
	Shell   string `arg:"" enum:"bash,zsh,fish" help:"Shell: bash, zsh or fish."`
	Install bool   `help:"Install the script for the shell instead of printing it."`
}

func (*Command) WithoutConfig() {}

// Run prints a shell's completion script, or installs it.
func (c *Command) Run(a *app.App) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	if !c.Install {
		_, err := io.WriteString(a.Env.Stdout, script)
		return err
	}
	path, err := install.CompletionPath(a, c.Shell)
	if err != nil {
		return err
	}
	if err := install.Write(path, script); err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(map[string]string{"installed": path})
	}
	a.Note("installed %s; new shells have it", path)
	if c.Shell == "zsh" && a.Env.UID != 0 {
		a.Note("zsh looks there when .zshrc says, before compinit: fpath=(%s $fpath)", filepath.Dir(path))
	}
	return nil
}
