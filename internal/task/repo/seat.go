package repo

import (
	"context"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/repository/filerule"
)

// seat is the computer that the agent's tools work in: another one each round,
// and none between rounds.
type seat struct {
	files *filerule.Policy

	mu  sync.Mutex
	box Computer
}

var errNoSandbox = api.Errorf(api.KindUnavailable, "the agent has no sandbox at the moment")

func (s *seat) sit(c Computer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.box = c
}

// leave kills the computer, if there is one. After an error it is still there.
func (s *seat) leave(ctx context.Context) (api.Proof, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == nil {
		return api.Proof{}, nil
	}
	proof, err := s.box.Close(ctx)
	if err == nil {
		s.box = nil
	}
	return proof, err
}

func (s *seat) at() (Computer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == nil {
		return nil, errNoSandbox
	}
	return s.box, nil
}

// Run implements tool.Box.
func (s *seat) Run(ctx context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	box, err := s.at()
	if err != nil {
		return api.Exec{}, err
	}
	return box.Run(ctx, req, output)
}

// Start implements tool.Box.
func (s *seat) Start(ctx context.Context, req api.ExecRequest) (tool.Job, error) {
	box, err := s.at()
	if err != nil {
		return nil, err
	}
	return box.Start(ctx, req)
}

// ReadFile implements tool.Box.
func (s *seat) ReadFile(ctx context.Context, path string, max int64) ([]byte, error) {
	box, err := s.at()
	if err != nil {
		return nil, err
	}
	b, err := box.ReadFile(ctx, path, max)
	if api.KindOf(err) == api.KindNotFound {
		if denied := s.offLimits(path); denied != nil {
			return nil, denied
		}
	}
	return b, err
}

// WriteFile implements tool.Box.
func (s *seat) WriteFile(ctx context.Context, path string, content []byte, executable bool) error {
	box, err := s.at()
	if err != nil {
		return err
	}
	if err := s.mayWrite(path); err != nil {
		return err
	}
	return box.WriteFile(ctx, path, content, executable)
}
