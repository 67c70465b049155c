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

// Person is somebody at a terminal, whose own checkouts are looked at and, by
// [User.Apply] and [User.Import] alone, changed. The zero value is whoever runs
// this process. Each call is a few git processes that end with it.
type User struct {
	Program string // git; "git" of PATH where empty
	// Environ is the environment that tells where the person's configuration is;
	// that of this process where nil. Nothing else of it reaches git.
	Environ []string
}

// personal are the variables by which git finds a person's configuration. Those that
// name a repository are not among them: a hook that runs hortus has them set for
// another one.
var configVariables = []string{"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
	"USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "PROGRAMDATA", "SYSTEMROOT"}

// variables are what of the environment is kept.
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

// readTime bounds what reading a configuration may take: an include may name a pipe
// that nobody writes to.
const readTimeout = time.Minute

// read runs a command of git that reads the configuration as the person's own git
// would, with what includes and conditions say of a directory. It is only for
// commands that run nothing that the configuration names (TestHostileCheckout).
func (p User) readConfig(ctx context.Context, g *git.Program, dir string, args ...string) (string, error) {
	ctx, stop := context.WithTimeoutCause(ctx, readTimeout,
		api.Errorf(api.KindTimeout, "git has not read its configuration within %v", readTimeout).WithHint("see whether an include.path names a pipe: git config --list --show-origin"))
	defer stop()
	return g.Line(ctx, git.Call{Dir: dir, Person: p.environ(), Args: args, Env: []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(filepath.Dir(g.Home))}, Max: 1 << 20})
}

// Setting gives a value of git's configuration as it holds in a directory; empty
// where nothing is set. Where dir is empty, what holds in the working directory.
func (p User) Setting(ctx context.Context, dir, key string) (string, error) {
	if strings.HasPrefix(key, "-") {
		return "", api.Errorf(api.KindInvalid, "%.100q is no setting", key)
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
		return "", api.Errorf(api.KindInvalid, "your configuration of git cannot be read: %w", err).WithHint("git config --list shows where it is wrong")
	}
	return value, err
}

// Remote gives the address that the pushes of a remote of the checkout at dir go to,
// as it is written: there may be a password in it ([WithoutSecret]). A path comes
// back absolute. KindNotFound where there is no such remote.
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

// words are the settings of the person, not of a checkout, that say how files are
// written and which are ignored.
func (p User) settings(ctx context.Context, d *workTree) ([]string, error) {
	out, err := p.readConfig(ctx, d.git, d.temp, "config", "--null", "--list")
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "your configuration of git cannot be read: %w", err).WithHint("git config --list shows where it is wrong")
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

// usualIgnore is where git looks for what a person ignores everywhere.
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

// program finds git. The caller calls the function that comes back when it is done.
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

// open finds the checkout that path is in. The caller calls the function that comes
// back when it is done.
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

// around finds the repository that a directory is in, as git does: the first on the
// way up that has a .git or is one.
func findRepository(ctx context.Context, g *git.Program, path string) (*shadow.Repository, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil, api.Errorf(api.KindDenied, "%s: %w", path, err)
		}
		return nil, api.Errorf(api.KindNotFound, "there is no directory %s", path)
	}
	if info, err := os.Stat(real); err == nil && !info.IsDir() {
		return nil, api.Errorf(api.KindNotFound, "%s is no directory", path)
	}
	for dir := real; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil || shadow.IsBare(dir) {
			return shadow.Open(g, ctx, dir, nil)
		}
		if dir == filepath.Dir(dir) {
			return nil, api.Errorf(api.KindNotFound, "%s is in no git checkout", path).
				WithHint("go into one, or name one; or make one: git init")
		}
	}
}
