package wasm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/backend/wasm/run"
)

// pythonFile is the name of the Python interpreter in the directory of modules.
const pythonFile = "python.wasm"

// python returns the path where the Python interpreter is, if one is installed.
func (b *Backend) python() string { return filepath.Join(b.cfg.Modules, pythonFile) }

// InstallPython installs a WASI build of CPython, one module with its standard library inside,
// into a directory of modules. digest is its SHA-256 in hexadecimal digits; the digest of what is
// installed is returned.
//
// Errors: KindInvalid if it is no module or has another digest.
func InstallPython(modules string, module io.Reader, digest string) (string, error) {
	code, err := io.ReadAll(io.LimitReader(module, run.MaxModule+1))
	if err != nil {
		return "", api.Errorf(api.KindUnavailable, "read the module: %w", err)
	}
	sum := sha256.Sum256(code)
	got := hex.EncodeToString(sum[:])
	switch {
	case len(code) > run.MaxModule:
		return "", api.Errorf(api.KindInvalid, "the module has more than %d bytes", run.MaxModule)
	case !bytes.HasPrefix(code, []byte("\x00asm\x01\x00\x00\x00")):
		return "", api.Errorf(api.KindInvalid, "it is not a core WebAssembly module").WithHint("use a build of CPython for wasm32-wasip1 in one file")
	case digest != "" && digest != got:
		return "", api.Errorf(api.KindInvalid, "the module has the digest %s, not %.64s", got, digest).WithHint("nothing was installed; download it again, or correct the digest")
	}
	if err := os.MkdirAll(modules, 0o700); err != nil {
		return "", api.Errorf(api.KindInternal, "install Python: %w", err)
	}
	f, err := os.CreateTemp(modules, "new-")
	if err != nil {
		return "", api.Errorf(api.KindInternal, "install Python: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(code)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(modules, pythonFile))
	}
	if err != nil {
		return "", api.Errorf(api.KindInternal, "install Python: %w", err)
	}
	return got, nil
}
