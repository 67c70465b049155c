package identity

import (
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
)

// Identity is a user that commands may run as, with what is computed from it once.
type Identity struct {
	birth.Identity
	env  atomic.Pointer[Environment]
	base string                 // see Base
	dir  atomic.Pointer[string] // that of the template; nil for base
	path string                 // PATH of its commands
	// plain is the same identity for requests without hortus.v1. Their relative paths start
	// at home, as E2B's clients expect.
	plain *Identity
}

// Environment is the environment of commands whose request adds no variables. It does not
// change.
type Environment struct {
	Map  map[string]string
	List []string // the same, as from EnvList
}

// Environment returns the current environment.
func (id *Identity) Environment() *Environment { return id.env.Load() }

// setEnv sets the environment of the identity's commands: the variables that E2B's clients
// expect, the defaults, and those of the sandbox.
func (id *Identity) setEnv(defaults, env map[string]string) {
	all := maps.Clone(defaults)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, map[string]string{
		"PATH": id.path, "HOME": id.Home, "USER": id.Name, "LOGNAME": id.Name,
	})
	maps.Copy(all, env)
	e := &Environment{Map: all, List: EnvList(all)}
	id.env.Store(e)
	if id.plain != nil {
		id.plain.env.Store(e)
	}
}

// forRequest returns the variant of the identity for a request.
func (id *Identity) forRequest(req *http.Request) *Identity {
	if req.Header.Get(envd.HeaderVersion) == envd.Version {
		return id
	}
	return id.plain
}

// Resolve makes a path absolute. "~" is the identity's home. A relative path starts in
// Base.
func (id *Identity) Resolve(path string) string {
	switch {
	case path == "~":
		return id.Home
	case strings.HasPrefix(path, "~/"):
		return filepath.Join(id.Home, path[2:])
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(id.Base(), path)
}

// Base is the directory in which relative paths start.
func (id *Identity) Base() string {
	if dir := id.dir.Load(); dir != nil {
		return *dir
	}
	return id.base
}

// OfE2B reports whether the request came from a client of E2B's, without hortus.v1.
func (id *Identity) OfE2B() bool { return id.plain == nil }

// EnvList returns the variables in the form NAME=VALUE, sorted.
func EnvList(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return out
}

// rootPath returns the PATH without directories that other users can write: those below the
// workspace and below other users' homes, and relative ones.
func rootPath(cfg *birth.Config) string {
	theirs := []string{cfg.Workspace, "/tmp", "/var/tmp", "/dev/shm"}
	for _, bi := range cfg.Identities {
		if bi.UID != 0 {
			theirs = append(theirs, bi.Home)
		}
	}
	return strings.Join(slices.DeleteFunc(strings.Split(cfg.Path, ":"), func(dir string) bool {
		clean := filepath.Clean(dir)
		return !filepath.IsAbs(dir) || slices.ContainsFunc(theirs, func(top string) bool {
			return top != "" && (clean == top || strings.HasPrefix(clean, top+"/"))
		})
	}), ":")
}
