package guest

import (
	"path/filepath"
	"strings"
)

// resolve makes a client's path absolute: "~" is the identity's home, and a
// relative path starts in the workspace, or at home where there is none.
func (s *Server) resolve(id *identity, path string) string {
	switch {
	case path == "~":
		return id.Home
	case strings.HasPrefix(path, "~/"):
		return filepath.Join(id.Home, path[2:])
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	case s.cfg.Workspace != "":
		return filepath.Join(s.cfg.Workspace, path)
	}
	return filepath.Join(id.Home, path)
}
