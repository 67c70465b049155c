package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
)

//go:embed scripts/hortus.bash
var bashScript string

//go:embed scripts/hortus.zsh
var zshScript string

//go:embed scripts/hortus.fish
var fishScript string

type completionCmd struct {
	Shell   string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
	Install bool   `help:"Write it where the shell looks for it, instead of printing it."`
}

func (*completionCmd) WithoutConfig() {}

// Run prints a shell's completion script, or installs it.
func (c *completionCmd) Run(a *app) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	if !c.Install {
		_, err := io.WriteString(a.env.Stdout, script)
		return err
	}
	path, err := a.completionPath(c.Shell)
	if err != nil {
		return err
	}
	if err := installFile(path, script); err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(map[string]string{"installed": path})
	}
	a.note("installed %s; new shells have it", path)
	if c.Shell == "zsh" && a.env.UID != 0 {
		a.note("zsh looks there when .zshrc says, before compinit: fpath=(%s $fpath)", filepath.Dir(path))
	}
	return nil
}

// completionPath is where a shell looks for completions of the user's, or of all
// users' for root.
func (a *app) completionPath(shell string) (string, error) {
	var below map[string]string
	base := ""
	if a.env.UID == 0 {
		base = "/usr/local/share"
		below = map[string]string{
			"bash": "bash-completion/completions/hortus", "zsh": "zsh/site-functions/_hortus", "fish": "fish/vendor_completions.d/hortus.fish",
		}
	} else {
		xdg, home := "XDG_DATA_HOME", ".local/share"
		if shell == "fish" {
			xdg, home = "XDG_CONFIG_HOME", ".config"
		}
		if base = a.getenv(xdg); !filepath.IsAbs(base) {
			if h := a.getenv("HOME"); filepath.IsAbs(h) {
				base = filepath.Join(h, home)
			} else {
				return "", api.Errorf(api.KindInvalid, "there is no home directory to install into").
					WithHint("print it instead: hortus completion %s", shell)
			}
		}
		below = map[string]string{
			"bash": "bash-completion/completions/hortus", "zsh": "zsh/site-functions/_hortus", "fish": "fish/completions/hortus.fish",
		}
	}
	return filepath.Join(base, below[shell]), nil
}

// madeByUs is in every file that Hortus installs.
const madeByUs = `"hortus uninstall" removes it`

// installFile writes a file of ours. One of somebody else's is not replaced.
func installFile(path, content string) error {
	if have, err := os.ReadFile(path); err == nil && !strings.Contains(string(have), madeByUs) {
		return api.Errorf(api.KindExists, "%s is there and was not made by Hortus", path).WithHint("move it away first")
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return api.Errorf(api.KindDenied, "install: %w", err)
	}
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = writeAside(path, content)
	}
	if err != nil {
		return api.Errorf(api.KindDenied, "install: %w", err)
	}
	return nil
}

// writeAside writes a file whole or not at all.
func writeAside(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".hortus-*")
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(f, content)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
