package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

// CompletionPath is where a shell looks for completions of the user's, or of all
// users' for root.
func CompletionPath(a *app.App, shell string) (string, error) {
	var below map[string]string
	base := ""
	if a.Env.UID == 0 {
		base = "/usr/local/share"
		below = map[string]string{
			"bash": "bash-completion/completions/hortus", "zsh": "zsh/site-functions/_hortus", "fish": "fish/vendor_completions.d/hortus.fish",
		}
	} else {
		xdg, home := "XDG_DATA_HOME", ".local/share"
		if shell == "fish" {
			xdg, home = "XDG_CONFIG_HOME", ".config"
		}
		if base = a.Getenv(xdg); !filepath.IsAbs(base) {
			if h := a.Getenv("HOME"); filepath.IsAbs(h) {
				base = filepath.Join(h, home)
			} else {
				return "", api.Errorf(api.KindInvalid, "no home directory to install into").
					WithHint("print it instead: hortus completion %s", shell)
			}
		}
		below = map[string]string{
			"bash": "bash-completion/completions/hortus", "zsh": "zsh/site-functions/_hortus", "fish": "fish/completions/hortus.fish",
		}
	}
	return filepath.Join(base, below[shell]), nil
}

// Mark is in every file that Hortus installs.
const Mark = `"hortus uninstall" removes it`

// Write writes a file of ours. One of another program is not replaced.
func Write(path, content string) error {
	if have, err := os.ReadFile(path); err == nil && !strings.Contains(string(have), Mark) {
		return api.Errorf(api.KindExists, "%s exists and was not created by Hortus", path).WithHint("move it away first")
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

// UnitPath is where systemd looks for the unit.
func UnitPath(a *app.App) (string, error) {
	if a.Env.UID == 0 {
		return "/etc/systemd/system/hortus.service", nil
	}
	base := a.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home := a.Getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", api.Errorf(api.KindInvalid, "no home directory to install into").WithHint("print it instead: hortus daemon unit")
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "systemd/user/hortus.service"), nil
}

// List lists the files that Hortus put elsewhere: its unit and completions,
// where they are its own.
func List(a *app.App) (out []string) {
	paths := []string{}
	if p, err := UnitPath(a); err == nil {
		paths = append(paths, p)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if p, err := CompletionPath(a, shell); err == nil {
			paths = append(paths, p)
		}
	}
	for _, p := range paths {
		st, err := os.Lstat(p)
		if err != nil || !st.Mode().IsRegular() || st.Size() > 1<<20 {
			continue
		}
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), Mark) {
			out = append(out, p)
		}
	}
	return out
}
