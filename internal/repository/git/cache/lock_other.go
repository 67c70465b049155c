//go:build !unix

package cache

import (
	"context"
	"os"

	"hortus.dev/api"
)

func lockFile(context.Context, string) (*os.File, error) {
	return nil, api.Errorf(api.KindUnsupported, "the repository cache needs a Unix system")
}
