package execserver

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strings"

	"hortus.dev/api"
)

// environment is what the sandbox says about itself.
type environment struct {
	shell, dir, home string
	// vars are those of a command that sets none.
	vars map[string]string
}

// environmentInfo is what the peer receives. What is not among the capabilities, it does not
// use.
type environmentInfo struct {
	Shell                shellInfo `json:"shell"`
	CWD                  string    `json:"cwd"`
	UserHomeDir          string    `json:"userHomeDir"`
	PlatformOS           string    `json:"platformOs"`
	TempDir              string    `json:"tempDir"`
	PrependPathDirs      []string  `json:"prependPathDirs"`
	TemporaryDirectories []string  `json:"temporaryDirectories"`
	Capabilities         struct{}  `json:"capabilities"`
}

type shellInfo struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// info is what the peer receives about the environment.
func (e *environment) info() environmentInfo {
	return environmentInfo{
		Shell: shellInfo{path.Base(e.shell), e.shell}, CWD: uriOf(e.dir), UserHomeDir: uriOf(e.home),
		PlatformOS: "linux", TempDir: uriOf("/tmp"), PrependPathDirs: []string{}, TemporaryDirectories: []string{},
	}
}

// describe prints the shell and the directory of a command, and its environment, each with a
// zero byte at its end.
const describe = `printf '%s\0%s\0' "$(command -v bash || command -v sh)" "$(pwd)" && exec env -0`

// ask asks the sandbox for its environment.
func (s *session) ask(ctx context.Context) (*environment, error) {
	out, err := s.output(ctx, maxEnvironment, "/bin/sh", "-c", describe)
	if err != nil {
		return nil, api.Errorf(api.KindOf(err), "ask the sandbox for its shell and environment: %w", err).
			WithHint("the sandbox needs /bin/sh and env")
	}
	return parseEnvironment(out)
}

// parseEnvironment reads what describe prints.
func parseEnvironment(out []byte) (*environment, error) {
	e := &environment{vars: map[string]string{}}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(fields) < 2 || !path.IsAbs(fields[0]) || !path.IsAbs(fields[1]) {
		return nil, api.Errorf(api.KindInternal, "the sandbox describes itself wrongly")
	}
	e.shell, e.dir = path.Clean(fields[0]), path.Clean(fields[1])
	for _, f := range fields[2:] {
		if name, value, ok := strings.Cut(f, "="); ok && name != "" {
			e.vars[name] = value
		}
	}
	if e.home = e.vars["HOME"]; !path.IsAbs(e.home) {
		e.home = "/"
	}
	e.home = path.Clean(e.home)
	// The shell sets these for itself.
	for _, name := range []string{"_", "PWD", "OLDPWD", "SHLVL"} {
		delete(e.vars, name)
	}
	return e, nil
}

// policy says which variables of the sandbox a command gets.
type policy struct {
	Inherit               string            `json:"inherit"`
	IgnoreDefaultExcludes bool              `json:"ignoreDefaultExcludes"`
	Exclude               []string          `json:"exclude"`
	Set                   map[string]string `json:"set"`
	IncludeOnly           []string          `json:"includeOnly"`
}

// core are the variables that every program needs.
var core = []string{"HOME", "LOGNAME", "PATH", "SHELL", "USER", "USERNAME", "TMPDIR", "TEMP", "TMP"}

// apply returns what is added to the sandbox's variables, and which of them are taken away.
func (p *policy) apply(have, env map[string]string) (add map[string]string, unset []string, err error) {
	add = map[string]string{}
	if p == nil {
		// Exactly what the peer sends.
		p = &policy{Inherit: "none", IgnoreDefaultExcludes: true}
	}
	if p.Inherit != "all" && p.Inherit != "core" && p.Inherit != "none" {
		return nil, nil, api.Errorf(api.KindInvalid, "envPolicy.inherit must be all, core or none")
	}
	if len(p.Exclude)+len(p.IncludeOnly) > maxName {
		return nil, nil, api.Errorf(api.KindExhausted, "envPolicy has more than %d patterns", maxName)
	}
	excluded := func(name string) bool {
		return !p.IgnoreDefaultExcludes && matches([]string{"*KEY*", "*SECRET*", "*TOKEN*"}, name) || matches(p.Exclude, name)
	}
	included := func(name string) bool { return len(p.IncludeOnly) == 0 || matches(p.IncludeOnly, name) }
	for name, value := range p.Set {
		if included(name) {
			add[name] = value
		}
	}
	for name, value := range env {
		add[name] = value
	}
	for name := range have {
		keep := p.Inherit == "all" || p.Inherit == "core" && slices.Contains(core, strings.ToUpper(name))
		if _, set := add[name]; !set && !(keep && !excluded(name) && included(name)) {
			unset = append(unset, name)
		}
	}
	slices.Sort(unset)
	return add, unset, nil
}

// matches reports whether a name matches a pattern, with * for any text and ? for one
// character, in any case.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return wild(strings.ToUpper(p), strings.ToUpper(name)) })
}

// wild matches in time that grows with the product of the lengths.
func wild(pattern, s string) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// output runs a command of this package and returns what it printed.
func (s *session) output(ctx context.Context, limit int, args ...string) ([]byte, error) {
	stdout, stderr := &limitBuffer{limit: limit}, &limitBuffer{limit: 4 << 10}
	p, err := s.cfg.Sandbox.Start(ctx, Command{Args: args, Stdout: stdout, Stderr: stderr})
	if err != nil {
		return nil, err
	}
	code, err := p.Wait()
	switch {
	case err != nil:
		return nil, err
	case code != 0:
		return nil, exitError(code, stderr.b.String())
	case stdout.over:
		return nil, api.Errorf(api.KindExhausted, "%s printed more than %d bytes", args[0], limit)
	}
	return stdout.b.Bytes(), nil
}

// exitError says why a tool failed, in its own words.
func exitError(code int, stderr string) error {
	kind := api.KindInternal
	switch text := strings.ToLower(stderr); {
	case strings.Contains(text, "no such file"):
		kind = api.KindNotFound
	case strings.Contains(text, "file exists"), strings.Contains(text, "not empty"):
		kind = api.KindExists
	case strings.Contains(text, "permission denied"), strings.Contains(text, "not permitted"):
		kind = api.KindDenied
	}
	return api.Errorf(kind, "exit status %d: %.400s", code, strings.TrimSpace(stderr))
}

// limitBuffer keeps the beginning of what is written.
type limitBuffer struct {
	b     bytes.Buffer
	limit int
	over  bool
}

func (w *limitBuffer) Write(p []byte) (int, error) {
	n := min(len(p), w.limit-w.b.Len())
	w.over = w.over || n < len(p)
	w.b.Write(p[:n])
	return len(p), nil
}
