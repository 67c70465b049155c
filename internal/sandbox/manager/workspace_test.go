package manager_test

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
)

// TestCreateInRefuses: a backend without the capability is asked by name and says
// which one it lacks; nothing is made.
func TestCreateInRefuses(t *testing.T) {
	w := newWorld(t)
	ws := sandbox.Workspace{Layers: []layer.Digest{"sha256-" + layer.Digest(strings.Repeat("a", 64))}, Upper: api.NewWorkspaceID()}
	_, err := w.Creator.CreateIn(t.Context(), api.CreateSandbox{Isolation: "process"}, ws)
	if api.KindOf(err) != api.KindUnsupported || !strings.Contains(err.Error(), string(api.CapWorkspace)) || api.HintOf(err) == "" {
		t.Errorf("%v (hint %q); want kind unsupported, naming the capability, with a hint", err, api.HintOf(err))
	}
	if _, err := w.Creator.CreateIn(t.Context(), api.CreateSandbox{Isolation: "process"}, sandbox.Workspace{}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("no layers: %v", err)
	}
	if all, err := w.Sandboxes.List(t.Context(), true); err != nil || len(all) != 0 {
		t.Errorf("made: %+v, %v", all, err)
	}
}
