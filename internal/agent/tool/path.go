package tool

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// where is a path of the sandbox: as text, since the guest alone resolves it.
type where struct {
	abs string // what files are read and written by
	arg string // for a script that runs in the workspace: "./a" or "/etc/b"
	say string // for people and models: "a" or "/etc/b"
}

// maxPath is the longest path, in bytes: the kernel's own bound.
const maxPath = 4096

// where cleans a path that the model gave.
func (s *Set) where(p string) (where, error) {
	switch {
	case p == "":
		return where{}, teach("the path is empty; use a path relative to %s or an absolute path", s.cfg.Dir)
	case len(p) >= maxPath:
		return where{}, teach("the path has %d bytes; the maximum is %d", len(p), maxPath-1)
	case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl):
		return where{}, teach("the path %q contains a control character; use shell for this file", clip(p, 80))
	}
	abs := p
	if !path.IsAbs(p) {
		abs = s.cfg.Dir + "/" + p
	}
	abs = path.Clean(abs)
	if abs == s.cfg.Dir {
		return where{abs, ".", "."}, nil
	}
	if rel, ok := strings.CutPrefix(abs, s.cfg.Dir+"/"); ok {
		return where{abs, "./" + rel, rel}, nil
	}
	return where{abs, abs, abs}, nil
}

// inGit reports whether a path leads into a repository's own files.
func inGit(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".git" {
			return true
		}
	}
	return false
}
