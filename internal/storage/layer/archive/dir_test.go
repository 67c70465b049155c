package archive_test

import (
	"testing"

	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/test/archivetest"
)

func TestDir(t *testing.T) {
	archivetest.Run(t, func(t *testing.T) archive.Blobs { return archive.Dir{Path: t.TempDir()} })
}
