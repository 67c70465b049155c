package binary

import (
	"fmt"
	"os"
	"path/filepath"

	"hortus.dev/test/tools"
)

// Variable names a hortus that is there already.
const Variable = "HORTUS_BIN"

// In returns the absolute path of the binary under test, and builds it in dir where none
// is named.
func In(dir string) (string, error) {
	path := os.Getenv(Variable)
	if path == "" {
		path = filepath.Join(dir, "hortus")
		gvisor, err := tools.Hortus(path)
		if err != nil {
			return "", fmt.Errorf("build hortus: %w", err)
		}
		if gvisor != nil {
			fmt.Fprintln(os.Stderr, "without gVisor:", gvisor)
		}
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("the binary under test: %w", err)
	}
	return path, nil
}
