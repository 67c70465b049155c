package manager

import (
	"testing"

	"hortus.dev/api"
)

// TestEnvReadable: nothing starts from a row whose values are lost, with less than it
// was made with.
func TestEnvReadable(t *testing.T) {
	row := api.Sandbox{EnvNames: []string{"A"}, Env: map[string]string{"A": ""}}
	if err := envReadable(row); err != nil {
		t.Error(err)
	}
	row.Env = nil
	if err := envReadable(row); api.KindOf(err) != api.KindConflict {
		t.Errorf("%v", err)
	}
}
