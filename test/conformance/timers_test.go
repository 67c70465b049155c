package conformance

import (
	"testing"

	"hortus.dev/test/tier"
)

// TestTimersOfCommands looks at how late the kernel may let a command's timers be:
// the guest's own may be later, which no command may inherit.
func TestTimersOfCommands(t *testing.T) {
	tier.AnyUser(t)
	m := newManaged(t)
	sandbox := m.room(t)
	for _, user := range sandbox.Identities {
		out, errs, _ := m.bash(t, sandbox.ID, user, "cat /proc/self/timerslack_ns")
		if out != "50000\n" {
			t.Errorf("commands of %s have timers that may be %q ns late: %s", user, out, errs)
		}
	}
}
