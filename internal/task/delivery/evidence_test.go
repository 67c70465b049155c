package delivery

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
)

// TestEvidenceOfTheOfflineModel: a merge request of a change that no language model has
// read says so, and no other one does.
func TestEvidenceOfTheOfflineModel(t *testing.T) {
	for model, want := range map[string]bool{"offline": true, "anthropic:m": false, "": false} {
		p := repo.Proposal{Task: api.Task{Model: "offline", Repo: &api.RepoResult{Head: "h", Rounds: []api.Round{{N: 1, Model: model}}}}}
		if got := strings.Contains(strings.Join(evidence(p).Look, "\n"), "passes the tests but was not reviewed by a language model"); got != want {
			t.Errorf("model %q: says that no model has read it: %v, want %v", model, got, want)
		}
	}
}
