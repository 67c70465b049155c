package http

import (
	"context"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/execserver"
)

// quick has commands that have ended before anyone can reach them.
type quick struct{ Sandboxes }

func (quick) StartExec(context.Context, api.SandboxID, api.ExecRequest) (ExecStream, error) {
	return quickStream{}, nil
}

func (quick) ExecClient(context.Context, api.SandboxID, api.ExecID) (*envd.Client, error) {
	return nil, api.Errorf(api.KindConflict, "it has ended")
}

type quickStream struct{}

func (quickStream) Exec() api.Exec         { return api.Exec{ID: "x1"} }
func (quickStream) Close() error           { return nil }
func (quickStream) Ended() <-chan struct{} { return nil }
func (quickStream) Next() (*envd.ProcessEvent, error) {
	return &envd.ProcessEvent{End: &envd.EndEvent{ExitCode: 3}}, nil
}

// TestQuickCommandOfCodex: a command that ends at once has its exit code, and takes neither input nor signals.
func TestQuickCommandOfCodex(t *testing.T) {
	p, err := outside{execs: execs{Sandboxes: quick{}}}.Start(t.Context(), execserver.Command{Args: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write([]byte("x")); api.KindOf(err) != api.KindConflict {
		t.Errorf("input: %v", err)
	}
	if err := p.Signal(t.Context(), 9); api.KindOf(err) != api.KindConflict {
		t.Errorf("a signal: %v", err)
	}
	if code, err := p.Wait(); code != 3 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}
