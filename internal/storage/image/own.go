package image

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api/envd"
)

// ownBin holds the programs that the template adds to what the machine has.
const ownBin = "/opt/hortus/bin"

// ownPrograms adds what scripts and agents expect that were written for other images: a
// sudo that works in a sandbox, a python where the machine has python3 alone, and the code
// interpreter.
func (b *builder) ownPrograms() error {
	python3 := b.find("python3")
	if b.find("python") != "" {
		python3 = ""
	}
	if b.own = python3 != "" || b.cfg.Sudo != nil; !b.own {
		return nil
	}
	dir := filepath.Join(b.root, ownBin)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if python3 != "" {
		if err := os.Symlink(python3, filepath.Join(dir, "python")); err != nil {
			return err
		}
	}
	if b.cfg.Sudo == nil {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "sudo"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(b.cfg.Sudo, 0, 1<<40))
	return errors.Join(err, f.Close(), os.Symlink("sudo", filepath.Join(dir, envd.CodeProgram)))
}

// find returns the path of a program inside, or "".
func (b *builder) find(name string) string {
	for dir := range strings.SplitSeq(b.path(), ":") {
		if p := filepath.Join(dir, name); b.visible(p) {
			return p
		}
	}
	return ""
}
