package kernel

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/backend/microvm/inside"
)

// Kernel is an installed kernel.
type Kernel struct {
	// Release names it, as uname does.
	Release string `json:"release"`
	// Digest is the SHA-256, in hexadecimal digits, of the file that it was installed from.
	Digest string `json:"digest"`
	// Image and Modules are the paths of the kernel and of the part of the initial file system with its modules.
	Image   string `json:"-"`
	Modules string `json:"-"`
}

// The files of an installed kernel, in a directory of their own: a machine that runs has them open.
const (
	imageName   = "vmlinuz"
	modulesName = "modules.cpio"
	recordName  = "kernel.json"
)

// Open returns the kernel that is installed in a directory.
//
// Errors: KindNotFound if there is none.
func Open(dir string) (Kernel, error) {
	var k Kernel
	b, err := os.ReadFile(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return k, api.Errorf(api.KindNotFound, "no kernel for virtual machines is installed").
			WithHint("On Debian: apt-get download linux-image-cloud-amd64, or the package that it depends on; then: hortus microvm install --file PACKAGE.deb")
	}
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	if err != nil {
		return k, api.Errorf(api.KindInternal, "the kernel of virtual machines: %w", err)
	}
	k.Image, k.Modules = filepath.Join(dir, k.Digest[:16], imageName), filepath.Join(dir, k.Digest[:16], modulesName)
	return k, nil
}

// WriteProgram writes the part of the initial file system with the program that is started first, and the directories
// that it needs.
func WriteProgram(w io.Writer, program []byte) error {
	c := &cpio{w: w}
	for _, dir := range []string{"dev", "proc", "sys", "disk", "root", "layers"} {
		c.add(dir, modeDir|0o755, nil)
	}
	c.add(inside.Argv0[1:], modeFile|0o755, program)
	return c.end()
}
