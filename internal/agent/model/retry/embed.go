package retry

import (
	"context"

	"hortus.dev/internal/agent/model"
)

// Embedder calls another embedder, more than once where that may help.
type Embedder struct {
	model.Embedder
	cfg Config
}

var _ model.Embedder = (*Embedder)(nil)

// NewEmbedder wraps e.
func NewEmbedder(e model.Embedder, cfg Config) *Embedder { return &Embedder{e, cfg.withDefaults()} }

// Embed implements [model.Embedder].
func (e *Embedder) Embed(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	err = e.cfg.run(ctx, "set another embedding model (embedding in [model])", func() (err error) {
		vectors, err = e.Embedder.Embed(ctx, texts)
		return err
	}, func(model.Retry) {})
	if err != nil {
		return nil, err
	}
	return vectors, nil
}
