package daemon

import (
	"context"

	"hortus.dev/api"
)

// watchArchive checks the archive once, in the background, and logs what is wrong.
func (s *System) watchArchive(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.archive.Check(ctx); err != nil && ctx.Err() != context.Canceled {
			s.log.Warn("layers are built without their archive", "error", err, "hint", api.HintOf(err))
		}
	}()
	s.onClose(func(context.Context) error { cancel(); <-done; return nil })
}
