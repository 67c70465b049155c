package daemon

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/door/access"
	"hortus.dev/internal/door/once"
	"hortus.dev/internal/sandbox/code"
	"hortus.dev/internal/sandbox/provision"
)

// services are what doors lead to that stands on the manager.
type services struct {
	once       *once.Keeper
	provisions *provision.Service
	code       *code.Runner
}

// openServices makes the services over sandboxes.
func (s *System) openServices(boxes *access.Sandboxes) {
	s.once = once.New(once.Config{Rows: rows{s.db}, Logger: s.log})
	s.provisions = provision.New(provision.Config{Sandboxes: boxes})
	s.onClose(s.provisions.Close)
	s.code = code.New(code.Config{
		Start: func(ctx context.Context, id api.SandboxID, req api.ExecRequest) (code.Stream, error) {
			x, err := boxes.StartExec(ctx, id, req)
			if err != nil {
				return nil, err
			}
			return x, nil
		},
		Guest: boxes.Guest,
	})
}
