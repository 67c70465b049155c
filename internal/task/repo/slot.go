package repo

import (
	"context"
	"net"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/repository/filerule"
)

// sandboxSlot has the sandbox that the agent's tools work in: another one each round, and none between rounds. It refuses what the
// file policy of the task forbids before the sandbox is asked. It starts nothing; the sandbox lives until end, or is taken out by
// set(nil). Its methods may be called from several goroutines.
type sandboxSlot struct {
	mu      sync.Mutex
	files   *filerule.Policy
	current Sandbox
}

// newSandboxSlot makes an empty slot. files says what the tools may not touch, see follow.
func newSandboxSlot(files *filerule.Policy) *sandboxSlot { return &sandboxSlot{files: files} }

// another makes an empty slot whose tools may not touch the same files.
func (s *sandboxSlot) another() *sandboxSlot { return newSandboxSlot(s.policy()) }

// follow sets what the tools may not touch.
func (s *sandboxSlot) follow(files *filerule.Policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = files
}

func (s *sandboxSlot) policy() *filerule.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files
}

// errNoSandbox is the error of an empty slot.
var errNoSandbox = api.Errorf(api.KindUnavailable, "the agent has no sandbox at the moment")

// set puts a sandbox into the slot, or none for nil.
func (s *sandboxSlot) set(c Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = c
}

// end kills the sandbox, if there is one. After an error it is still there.
func (s *sandboxSlot) end(ctx context.Context) (api.Proof, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return api.Proof{}, nil
	}
	proof, err := s.current.Close(ctx)
	if err == nil {
		s.current = nil
	}
	return proof, err
}

// sandbox returns it, or errNoSandbox.
func (s *sandboxSlot) sandbox() (Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, errNoSandbox
	}
	return s.current, nil
}

// Run implements tool.Sandbox.
func (s *sandboxSlot) Run(ctx context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	sandbox, err := s.sandbox()
	if err != nil {
		return api.Exec{}, err
	}
	return sandbox.Run(ctx, req, output)
}

// Start implements tool.Sandbox.
func (s *sandboxSlot) Start(ctx context.Context, req api.ExecRequest) (tool.Job, error) {
	sandbox, err := s.sandbox()
	if err != nil {
		return nil, err
	}
	return sandbox.Start(ctx, req)
}

// ReadFile implements tool.Sandbox.
func (s *sandboxSlot) ReadFile(ctx context.Context, path string, max int64) ([]byte, error) {
	sandbox, err := s.sandbox()
	if err != nil {
		return nil, err
	}
	b, err := sandbox.ReadFile(ctx, path, max)
	if api.KindOf(err) == api.KindNotFound {
		if denied := s.offLimits(path); denied != nil {
			return nil, denied
		}
	}
	return b, err
}

// WriteFile implements tool.Sandbox.
func (s *sandboxSlot) WriteFile(ctx context.Context, path string, content []byte, executable bool) error {
	sandbox, err := s.sandbox()
	if err != nil {
		return err
	}
	if err := s.mayWrite(path); err != nil {
		return err
	}
	return sandbox.WriteFile(ctx, path, content, executable)
}

// Talk starts a program in the agent's current sandbox.
func (s *sandboxSlot) Talk(ctx context.Context, req api.ExecRequest) (Conn, error) {
	sandbox, err := s.sandbox()
	if err != nil {
		return nil, err
	}
	return sandbox.Talk(ctx, req)
}

// Dial connects with a port in the agent's current sandbox.
func (s *sandboxSlot) Dial(ctx context.Context, port int) (net.Conn, error) {
	sandbox, err := s.sandbox()
	if err != nil {
		return nil, err
	}
	return sandbox.Dial(ctx, port)
}

// offLimits is the error of a tool for a file that is off limits, nil for another. The file is not
// in the sandbox; the error only says why.
func (s *sandboxSlot) offLimits(p string) error {
	if glob := s.policy().OffLimits(inRepository(p)); glob != "" {
		return api.Errorf(api.KindDenied, "%s is off limits in this task (rule %s)", p, glob).
			WithHint("Solve the task without it. If that is impossible, call finish and say why in blocked.")
	}
	return nil
}

// mayWrite returns the error of a tool that changes a file which it may not change.
func (s *sandboxSlot) mayWrite(p string) error {
	if err := s.offLimits(p); err != nil {
		return err
	}
	if why := s.policy().ReadOnly(inRepository(p)); why != "" && inRepository(p) != "" {
		return api.Errorf(api.KindDenied, "%s cannot be changed in this task: it is %s", p, why).
			WithHint("Solve the task without changing it. If that is impossible, call finish and say why in blocked.")
	}
	return nil
}
