package service

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/tool"
)

// Service is a program that runs beside the agent and beside a gate.
type Service struct {
	Name string
	Exec api.ExecRequest
	// Ready is a command that succeeds when the service can be used; empty args for none. It is tried until its
	// timeout.
	Ready api.ExecRequest
}

// Times of services.
const (
	serviceReady = time.Minute
	serviceRetry = 500 * time.Millisecond
)

// Box is where services run.
type Box interface {
	Run(ctx context.Context, req api.ExecRequest, output func(stream string, p []byte) error) (api.Exec, error)
	Start(ctx context.Context, req api.ExecRequest) (tool.Job, error)
}

// Start starts services in a sandbox and waits until they are ready. They end with it.
func Start(ctx context.Context, box Box, services []Service) error {
	for _, s := range services {
		if _, err := box.Start(ctx, s.Exec); err != nil {
			return api.Errorf(api.KindOf(err), "start the service %s: %w", s.Name, err)
		}
	}
	for _, s := range services {
		if err := ready(ctx, box, s); err != nil {
			return err
		}
	}
	return nil
}

func ready(ctx context.Context, box Box, s Service) error {
	if len(s.Ready.Args) == 0 {
		return nil
	}
	within := serviceReady
	if s.Ready.TimeoutMS > 0 {
		within = time.Duration(s.Ready.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, errNotReady)
	defer cancel()
	for {
		ex, err := box.Run(context.WithoutCancel(ctx), s.Ready, func(string, []byte) error { return nil })
		if err != nil {
			return api.Errorf(api.KindOf(err), "the service %s: %w", s.Name, err)
		}
		if ex.Exit.Code == 0 && ex.Exit.Cause == "" {
			return nil
		}
		select {
		case <-time.After(serviceRetry):
		case <-ctx.Done():
			if context.Cause(ctx) == errNotReady {
				return api.Errorf(api.KindTimeout, "the service %s was not ready within %s", s.Name, within)
			}
			return ctx.Err()
		}
	}
}

var errNotReady = api.Errorf(api.KindTimeout, "the service is not ready")
