package binary

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Variable names a hortus that is there already.
const Variable = "HORTUS_BIN"

// In gives the absolute path of the binary under test, and builds it below dir where
// none is named. The caller is in a directory two below the module's root, as packages
// of test/ are.
func In(dir string) (string, error) {
	path := os.Getenv(Variable)
	if path == "" {
		path = filepath.Join(dir, "hortus")
		if err := build(dir, path); err != nil {
			return "", fmt.Errorf("build hortus: %w", err)
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

// build makes the binary. An overlay puts the embedded programs where the compiler
// looks for them, so that the source tree is not written to.
func build(dir, out string) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	guest := filepath.Join(dir, "hortus-guest")
	if err := goRun(root, "build", "-trimpath", "-ldflags", "-s -w", "-o", guest, "./cmd/hortus-guest"); err != nil {
		return err
	}
	tags := "embedguest"
	replace := map[string]string{filepath.Join(root, "internal/embedded/guest/hortus-guest"): guest}
	runsc := filepath.Join(dir, "hortus-runsc")
	if err := goRun(filepath.Join(root, "cmd/hortus-runsc"), "build", "-trimpath", "-ldflags", "-s -w", "-o", runsc, "."); err != nil {
		fmt.Fprintln(os.Stderr, "without gVisor:", err)
	} else {
		tags += ",embedrunsc"
		replace[filepath.Join(root, "internal/embedded/guest/hortus-runsc")] = runsc
	}
	overlay := filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return err
	}
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		return err
	}
	return goRun(root, "build", "-trimpath", "-tags", tags, "-overlay", overlay, "-ldflags", "-s -w", "-o", out, "./cmd/hortus")
}

func goRun(in string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = in
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w\n%s", args, err, text)
	}
	return nil
}
