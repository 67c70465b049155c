//go:build !unix

package shadow

import (
	"io/fs"
	"os"

	"hortus.dev/api"
)

func owned(name string, _ fs.FileInfo, _ []uint32) error {
	return api.Errorf(api.KindUnsupported, "%s: whose it is cannot be told on this system", name).
		WithHint("give the address of its remote instead")
}

func openPlain(name string) (*os.File, error) { return os.Open(name) }
