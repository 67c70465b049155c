package story

import (
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

// TestMissingCommand runs programs that need what the sandbox does not have: the diagnosis
// names it and says how to get it.
func TestMissingCommand(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	for name, args := range map[string][]string{
		"no command no_such_command":        {"run", "Run this Bash: no_such_command --help"},
		"no Python library no_such_library": {"run", "--setup-egress", "none", "Run this Python: import no_such_library"},
	} {
		r := g.run(args...)
		for _, want := range []string{"The sandbox has " + name, "Sandboxes connect only to what is allowed", "hortus doctor"} {
			if r.code != 1 || !strings.Contains(r.stderr, want) {
				t.Errorf("%q is missing: %s", want, r)
			}
		}
	}
}
