package python

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Direct puts the directory of the interpreter that python3 stands for at the beginning of PATH, if python3 is a script. Otherwise, and
// where there is no python3, it does nothing.
func Direct() {
	found, err := exec.LookPath("python3")
	if err != nil || !isScript(found) {
		return
	}
	out, err := exec.Command(found, "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return // tests say what their Python cannot do
	}
	os.Setenv("PATH", filepath.Dir(strings.TrimSpace(string(out)))+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// isScript reports whether a file begins as a script does.
func isScript(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var begin [2]byte
	_, err = io.ReadFull(f, begin[:])
	return err == nil && string(begin[:]) == "#!"
}
