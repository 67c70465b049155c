package place

import (
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/layer/archive/s3"
)

// Open opens an archive, which it does not reach. It fails with KindInvalid for a text that is
// neither an absolute path nor the address of an object store.
func Open(text string) (*archive.Archive, error) {
	if !strings.Contains(text, "://") {
		if !filepath.IsAbs(text) {
			return nil, api.Errorf(api.KindInvalid, "%.200q is neither an absolute path nor an address that begins with %s", text, s3.Scheme)
		}
		return &archive.Archive{Blobs: archive.NewBounded(archive.Dir{Path: text}, 0)}, nil
	}
	l, err := s3.Parse(text)
	if err != nil {
		return nil, err
	}
	b, err := s3.Open(s3.Config{Location: l})
	if err != nil {
		return nil, err
	}
	return &archive.Archive{Blobs: b}, nil
}
