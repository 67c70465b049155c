package rundir

import (
	"errors"
	"os"
	"path/filepath"

	"hortus.dev/internal/platform/proc"
)

// pidName is the name of the file in the run directory.
const pidName = "pid"

// WritePID writes the identity of a machine's first process.
func WritePID(dir string, id proc.ID) error {
	return os.WriteFile(filepath.Join(dir, pidName), id.Encode(), 0o600)
}

// ReadPID reads the identity of a machine's first process. It reports false if there is
// none. A truncated file counts as none: its daemon was killed while it wrote the file,
// and the process ended with the daemon's control socket.
func ReadPID(dir string) (proc.ID, bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, pidName))
	if errors.Is(err, os.ErrNotExist) {
		return proc.ID{}, false, nil
	}
	if err != nil {
		return proc.ID{}, false, err
	}
	p, ok := proc.Decode(b)
	return p, ok, nil
}
