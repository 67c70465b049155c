package binary

import (
	"fmt"
	"os"
	"path/filepath"

	"hortus.dev/test/tools"
)

// Variable is the environment variable with the path of an existing hortus binary.
const Variable = "HORTUS_BIN"

// In returns the absolute path of the binary under test. It builds the binary in dir if
// [Variable] is not set.
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
