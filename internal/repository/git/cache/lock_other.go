//go:build !unix

package cache

import (
	"context"
	"os"

	"hortus.dev/api"
)

func lockFile(context.Context, string) (*os.File, error) {
	return nil, api.Errorf(api.KindUnsupported, "a cache of repositories needs a Unix system")
}
