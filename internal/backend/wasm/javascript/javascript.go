package javascript

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // the module
	"encoding/hex"
	"fmt"
	"io"
)

const (
	// Version and Source are the version of QuickJS-ng, and its commit.
	Version = "0.16.2"
	Source  = "05b2db95d9b8a088a203950727d1c3459fe0ec47"
	// SHA256 is the digest of the module.
	SHA256 = "972d576812aa49cd2ed707a66eb716ae95067042d175cc54e28ed8c7f83c4626"
)

//go:embed qjs.wasm.gz
var packed []byte

// Module returns the module.
func Module() ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	module, err := io.ReadAll(zr)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(module); hex.EncodeToString(sum[:]) != SHA256 {
		return nil, fmt.Errorf("the embedded QuickJS module has the digest %x, not %s", sum, SHA256)
	}
	return module, nil
}
