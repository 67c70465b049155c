package main

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed all:_gvisor
var added embed.FS

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: patch DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "patch:", err)
		os.Exit(1)
	}
}

// run makes the changed copy in dir, unless it is there, and the go.mod that uses it.
func run(dir string) error {
	name := "gvisor-" + digest()
	tree := filepath.Join(dir, name)
	if _, err := os.Stat(tree); errors.Is(err, fs.ErrNotExist) {
		if err := makeTree(dir, tree); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := writeTests(tree); err != nil {
		return err
	}
	return writeMod(dir, tree)
}

// makeTree makes the tree in one step: a tree that exists is complete.
func makeTree(dir, tree string) error {
	original, err := download()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "gvisor-*"))
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(dir, "gvisor-new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	for _, name := range []string{"pkg", "runsc", "sandboxexec", "shim", "tools", "webhook", "go.mod", "LICENSE"} {
		if err := copyTree(filepath.Join(original, name), filepath.Join(temp, name)); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if err := c.apply(temp); err != nil {
			return err
		}
	}
	err = eachAdded(func(path string, b []byte) error {
		out := filepath.Join(temp, path)
		if _, err := os.Stat(out); err == nil {
			return fmt.Errorf("gVisor has a file %s now, which would be replaced", path)
		}
		return os.WriteFile(out, b, 0o644)
	})
	if err != nil {
		return err
	}
	for _, path := range old { // of other changes, or of one that was killed
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	err = os.Rename(temp, tree)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster
	}
	return err
}

// writeTests writes the tests, as they are now, into a tree.
func writeTests(tree string) error {
	return eachAdded(func(path string, b []byte) error {
		if !isTest(path) {
			return nil
		}
		return write(filepath.Join(tree, path), b)
	})
}

// eachAdded calls f with each added file and its path in the tree.
func eachAdded(f func(path string, b []byte) error) error {
	const top = "_gvisor"
	return fs.WalkDir(added, top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := added.ReadFile(path)
		if err != nil {
			return err
		}
		return f(strings.TrimPrefix(path, top+"/"), b)
	})
}

// download returns the directory of the original.
func download() (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly") // of the original, whatever this is built with
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	var m struct{ Dir, Version string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", err
	}
	if m.Version != version {
		return "", fmt.Errorf("go.mod requires %s %s, but the changes are for %s: read what changed, and adapt patch/edits.go", module, m.Version, version)
	}
	return m.Dir, nil
}

// apply changes the file in tree.
func (c change) apply(tree string) error {
	path := filepath.Join(tree, c.path)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != c.sum {
		return fmt.Errorf("%s is not the file that the changes are for: its SHA-256 is %x", c.path, sum)
	}
	text := string(b)
	for i, e := range c.edits {
		if n := strings.Count(text, e.old); n != 1 {
			return fmt.Errorf("%s: edit %d matches %d times", c.path, i+1, n)
		}
		text = strings.Replace(text, e.old, e.new, 1)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// isTest reports whether a file is one of tests, which no executable has.
func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

// digest identifies the changes, without their tests.
func digest() string {
	h := sha256.New()
	fmt.Fprintln(h, version)
	for _, c := range changes {
		fmt.Fprintf(h, "%q %q %q\n", c.path, c.sum, c.edits)
	}
	err := eachAdded(func(path string, b []byte) error {
		if !isTest(path) {
			fmt.Fprintf(h, "%q %q\n", path, b)
		}
		return nil
	})
	if err != nil {
		panic(err) // the files are embedded
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// writeMod writes gvisor.mod and gvisor.sum: those of this module, with the tree in the place
// of the original.
func writeMod(dir, tree string) error {
	b, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	place := filepath.ToSlash(tree)
	if !filepath.IsAbs(tree) && !strings.HasPrefix(place, "../") {
		place = "./" + place
	}
	text := fmt.Sprintf("%s\nreplace %s => %s\n", b, module, place)
	if err := write(filepath.Join(dir, "gvisor.mod"), []byte(text)); err != nil {
		return err
	}
	if b, err = os.ReadFile("go.sum"); err != nil {
		return err
	}
	return write(filepath.Join(dir, "gvisor.sum"), b)
}

// write replaces a file at once: other builds may read it.
func write(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// copyTree copies a file or a directory. The copies are writable.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		out := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(out, 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(out, b, 0o644)
	})
}
