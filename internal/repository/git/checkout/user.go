package checkout

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/shadow"
)

// User is the user at a terminal. Only [User.Apply] and [User.Import] change their
// checkouts. The zero value is the user of this process.
type User struct {
	Program string // path or name of git (default "git")
	// Environ is the environment that locates the user's configuration (default that of
	// this process). Git gets nothing else of it.
	Environ []string
}

// configVariables are the variables by which git finds a user's configuration. Variables
// that name a repository are excluded: a hook that runs hortus has them for another one.
var configVariables = []string{"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
	"USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "PROGRAMDATA", "SYSTEMROOT"}

// environ returns the variables of configVariables.
func (p User) environ() []string {
	all := p.Environ
	if all == nil {
		all = os.Environ()
	}
	kept := []string{}
	for _, v := range all {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(configVariables, strings.ToUpper(name)) {
			kept = append(kept, v)
		}
	}
	return kept
}

// readTimeout is the timeout for reading a configuration: an include may name a pipe that
// nobody writes to.
const readTimeout = time.Minute

// readConfig runs a command of git that reads the configuration as the user's own git
// would, with includes and conditions for a directory. Use it only for commands that run
// no program of the configuration (TestHostileCheckout).
func (p User) readConfig(ctx context.Context, g *git.Program, dir string, args ...string) (string, error) {
	ctx, stop := context.WithTimeoutCause(ctx, readTimeout,
		api.Errorf(api.KindTimeout, "git did not read its configuration within %v", readTimeout).WithHint("check whether an include.path names a pipe: git config --list --show-origin"))
	defer stop()
	return g.Line(ctx, git.Call{Dir: dir, Person: p.environ(), Args: args, Env: []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(filepath.Dir(g.Home))}, Max: 1 << 20})
}

// Setting returns a value of git's configuration in dir (default the working directory);
// empty if it is not set.
func (p User) Setting(ctx context.Context, dir, key string) (string, error) {
	if strings.HasPrefix(key, "-") {
		return "", api.Errorf(api.KindInvalid, "%.100q is not a setting", key)
	}
	g, done, err := p.findGit()
	if err != nil {
		return "", err
	}
	defer done()
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return "", api.Errorf(api.KindInternal, "%w", err)
		}
	}
	value, err := p.readConfig(ctx, g, dir, "config", "--get", key)
	if git.ExitCode(err, 1) {
		return "", nil
	}
	if err != nil && api.KindOf(err) == api.KindInternal {
		return "", api.Errorf(api.KindInvalid, "your configuration of git cannot be read: %w", err).WithHint("git config --list shows the error")
	}
	return value, err
}

// Remote returns the push URL of a remote of the checkout at dir. It may contain a password
// (git.StripCredentials). A path is returned absolute. KindNotFound for an unknown remote.
func (p User) Remote(ctx context.Context, dir, name string) (string, error) {
	d, done, err := p.open(ctx, dir)
	if err != nil {
		return "", err
	}
	defer done()
	at := d.Path()
	out, err := p.readConfig(ctx, d.git, at, "remote", "get-url", "--push", "--", name)
	if err != nil && (git.ExitCode(err, 2) || git.ExitCode(err, 128)) {
		return "", api.Errorf(api.KindNotFound, "%s has no remote %.100q", at, name)
	}
	if err != nil {
		return "", err
	}
	address, _, _ := strings.Cut(out, "\n")
	if _, _, isSCP := git.SplitSCP(address); address != "" && !strings.Contains(address, "://") && !isSCP && !filepath.IsAbs(address) {
		address = filepath.Join(at, address)
	}
	return address, nil
}

// settings returns the user's settings, not those of a checkout, for how files are written
// and which are ignored.
func (p User) settings(ctx context.Context, d *workTree) ([]string, error) {
	out, err := p.readConfig(ctx, d.git, d.temp, "config", "--null", "--list")
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "your configuration of git cannot be read: %w", err).WithHint("git config --list shows the error")
	}
	var words []string
	for entry := range strings.SplitSeq(out, "\x00") {
		if key, value, ok := strings.Cut(entry, "\n"); ok && slices.Contains(fileSettings, key) {
			words = append(words, key, value)
		}
	}
	ignored, err := p.readConfig(ctx, d.git, d.temp, "config", "--type=path", "--get", "core.excludesFile")
	if git.ExitCode(err, 1) {
		ignored, err = p.defaultIgnoreFile(), nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := shadow.ReadFile(ignored, 1<<20); err == nil {
		words = append(words, "core.excludesFile", ignored)
	}
	return words, nil
}

// defaultIgnoreFile is git's default for core.excludesFile.
func (p User) defaultIgnoreFile() string {
	var home, config string
	for _, v := range p.environ() {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "HOME":
			home = value
		case "XDG_CONFIG_HOME":
			config = value
		}
	}
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "git", "ignore")
}

// findGit finds git. The caller must call the returned function at the end.
func (p User) findGit() (*git.Program, func(), error) {
	aside, err := os.MkdirTemp("", "hortus-git-")
	if err != nil {
		return nil, nil, api.Errorf(api.KindInternal, "%w", err)
	}
	done := func() { os.RemoveAll(aside) }
	if aside, err = filepath.EvalSymlinks(aside); err == nil {
		err = os.Mkdir(filepath.Join(aside, "home"), 0o700)
	}
	if err != nil {
		done()
		return nil, nil, api.Errorf(api.KindInternal, "%w", err)
	}
	g, err := git.Find(p.Program, filepath.Join(aside, "home"), nil)
	if err != nil {
		done()
		return nil, nil, err
	}
	return g, done, nil
}

// open finds the checkout that contains path. The caller must call the returned function
// at the end.
func (p User) open(ctx context.Context, path string) (*workTree, func(), error) {
	if !filepath.IsAbs(path) {
		return nil, nil, api.Errorf(api.KindInvalid, "%q is not an absolute path", path)
	}
	g, done, err := p.findGit()
	if err != nil {
		return nil, nil, err
	}
	d := &workTree{git: g, temp: filepath.Dir(g.Home)}
	if d.Repository, err = findRepository(ctx, g, path); err == nil {
		d.settings, err = p.settings(ctx, d)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return d, done, nil
}

// findRepository finds the repository of a directory as git does: the nearest parent that
// has a .git or is a repository.
func findRepository(ctx context.Context, g *git.Program, path string) (*shadow.Repository, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil, api.Errorf(api.KindDenied, "%s: %w", path, err)
		}
		return nil, api.Errorf(api.KindNotFound, "directory %s not found", path)
	}
	if info, err := os.Stat(real); err == nil && !info.IsDir() {
		return nil, api.Errorf(api.KindNotFound, "%s is not a directory", path)
	}
	for dir := real; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil || shadow.IsBare(dir) {
			return shadow.Open(g, ctx, dir, nil)
		}
		if dir == filepath.Dir(dir) {
			return nil, api.Errorf(api.KindNotFound, "%s is not in a git checkout", path).
				WithHint("change to a checkout, name one, or create one: git init")
		}
	}
}
