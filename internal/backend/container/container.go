package container

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/sandbox"
)

// Config is that of a jail; New sets its Name.
type Config = jail.Config

// Backend starts guests on the host's kernel.
type Backend struct{ *jail.Backend }

// New prepares a backend. See jail.New.
func New(cfg Config) (*Backend, error) {
	cfg.Name = "container"
	b, err := jail.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Backend{b}, nil
}

var _ sandbox.Backend = (*Backend)(nil)

// Mark is the mark of the images that can be restored here: those of files. See
// sandbox.Backend.
func (b *Backend) Mark(_ context.Context, kind api.SnapshotKind) (api.ImageMark, error) {
	return b.FilesMark(kind)
}
