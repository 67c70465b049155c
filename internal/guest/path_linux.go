package guest

import (
	"path/filepath"
	"strings"
)

// resolve makes a client's path absolute: "~" is the identity's home, and a
// relative path starts in the workspace, or at home where there is none and for
// clients without hortus.v1.
func (s *Server) resolve(id *identity, path string) string {
	switch {
	case path == "~":
		return id.Home
	case strings.HasPrefix(path, "~/"):
		return filepath.Join(id.Home, path[2:])
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(id.base, path)
}
