package repo

import (
	"context"
	"net"
	"path"
	"strings"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/repository/filerule"
)

// Seat is the computer that the agent's tools work in: another one each round, and none between rounds. Its methods may
// be called from several goroutines.
type sandboxSlot struct {
	mu      sync.Mutex
	files   *filerule.Policy
	current Sandbox
}

// New makes a seat without a computer. files says what the tools may not touch, see [Seat.Follow].
func newSandboxSlot(files *filerule.Policy) *sandboxSlot { return &sandboxSlot{files: files} }

// Another makes a seat without a computer whose tools may not touch the same files.
func (s *sandboxSlot) another() *sandboxSlot { return newSandboxSlot(s.policy()) }

// Follow sets what the tools may not touch.
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

// ErrEmpty is the error of a seat without a computer.
var errNoSandbox = api.Errorf(api.KindUnavailable, "the agent has no sandbox at the moment")

// Sit puts a computer into the seat, or none for nil.
func (s *sandboxSlot) set(c Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = c
}

// Leave kills the computer, if there is one. After an error it is still there.
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

// At returns the computer, or ErrEmpty.
func (s *sandboxSlot) sandbox() (Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, errNoSandbox
	}
	return s.current, nil
}

// Run implements tool.Box.
func (s *sandboxSlot) Run(ctx context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	box, err := s.sandbox()
	if err != nil {
		return api.Exec{}, err
	}
	return box.Run(ctx, req, output)
}

// Start implements tool.Box.
func (s *sandboxSlot) Start(ctx context.Context, req api.ExecRequest) (tool.Job, error) {
	box, err := s.sandbox()
	if err != nil {
		return nil, err
	}
	return box.Start(ctx, req)
}

// ReadFile implements tool.Box.
func (s *sandboxSlot) ReadFile(ctx context.Context, path string, max int64) ([]byte, error) {
	box, err := s.sandbox()
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
func (s *sandboxSlot) WriteFile(ctx context.Context, path string, content []byte, executable bool) error {
	box, err := s.sandbox()
	if err != nil {
		return err
	}
	if err := s.mayWrite(path); err != nil {
		return err
	}
	return box.WriteFile(ctx, path, content, executable)
}

// Talk starts a program in the agent's current sandbox.
func (s *sandboxSlot) Talk(ctx context.Context, req api.ExecRequest) (Conn, error) {
	box, err := s.sandbox()
	if err != nil {
		return nil, err
	}
	return box.Talk(ctx, req)
}

// Dial connects with a port in the agent's current sandbox.
func (s *sandboxSlot) Dial(ctx context.Context, port int) (net.Conn, error) {
	box, err := s.sandbox()
	if err != nil {
		return nil, err
	}
	return box.Dial(ctx, port)
}

// offLimits is the error of a tool for a file that is off limits, nil for another. The file is not
// in the sandbox; the error only says why.
func (s *sandboxSlot) offLimits(p string) error {
	if glob := s.policy().OffLimits(slotPath(p)); glob != "" {
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
	if why := s.policy().ReadOnly(slotPath(p)); why != "" && slotPath(p) != "" {
		return api.Errorf(api.KindDenied, "%s cannot be changed in this task: it is %s", p, why).
			WithHint("Solve the task without changing it. If that is impossible, call finish and say why in blocked.")
	}
	return nil
}

// inRepository returns a path of the sandbox relative to the repository, "" if it is not in it.
func slotPath(p string) string {
	rel, ok := strings.CutPrefix(path.Clean(p), Workspace+"/")
	if !ok {
		return ""
	}
	return rel
}
