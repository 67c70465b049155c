//go:build !unix

package shadow

import (
	"io/fs"
	"os"

	"hortus.dev/api"
)

func checkOwner(name string, _ fs.FileInfo, _ []uint32) error {
	return api.Errorf(api.KindUnsupported, "%s: its owner cannot be checked on this system", name).
		WithHint("use the address of its remote instead")
}

func openRegular(name string) (*os.File, error) { return os.Open(name) }
