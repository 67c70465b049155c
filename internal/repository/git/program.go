package git

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"hortus.dev/api"
)

// The oldest supported version of git.
const oldestMajor, oldestMinor = 2, 34

// Find looks up git, a path or a name (default "git"), and checks its version. home is an
// empty directory. KindUnavailable if git is missing or too old.
func Find(name, home string, log *slog.Logger) (*Program, error) {
	const hint = "install git 2.34 or newer (apt install git, dnf install git, apk add git)"
	name = cmp.Or(name, "git")
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, api.Errorf(api.KindUnavailable, "git is required: %w", err).WithHint(hint)
	}
	p := &Program{path: path, Home: home, log: log}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	text, err := p.Line(ctx, Call{Args: []string{"version"}})
	if err != nil {
		return nil, api.Errorf(api.KindUnavailable, "%s does not run: %w", path, err).WithHint(hint)
	}
	var major, minor int
	if _, err := fmt.Sscanf(text, "git version %d.%d", &major, &minor); err != nil {
		return nil, api.Errorf(api.KindUnavailable, "%s printed %q instead of its version", path, Sanitize(text, 100)).WithHint(hint)
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return nil, api.Errorf(api.KindUnavailable, "%s has version %d.%d; %d.%d or newer is required", path, major, minor, oldestMajor, oldestMinor).WithHint(hint)
	}
	return p, nil
}

// InitBare creates an empty bare repository that serves any of its objects.
func InitBare(ctx context.Context, p *Program, dir, format string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return api.Errorf(api.KindInternal, "create a repository: %w", err)
	}
	if _, err := p.Run(ctx, Call{GitDir: dir, Args: []string{"init", "--quiet", "--bare", "--template=", "--initial-branch=none", "--object-format=" + format}}); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return api.Errorf(api.KindInternal, "create a repository: %w", err)
	}
	// Git's upload-pack gets no configuration by its environment, so the file has its
	// settings.
	_, err = f.WriteString("[uploadpack]\n\tallowAnySHA1InWant = true\n[gc]\n\tauto = 0\n[core]\n\tcommitGraph = false\n\tmultiPackIndex = false\n" +
		"\thooksPath = /dev/null\n\tlogAllRefUpdates = false\n[pack]\n\tuseBitmaps = false\n\tthreads = 1\n")
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "create a repository: %w", err)
	}
	return nil
}
