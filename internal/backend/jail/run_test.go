package jail_test

import (
	"testing"

	"hortus.dev/internal/sandbox"
)

// TestSavedRunDir looks at /run/e2b of a container and of one that continues from its files:
// each is told its own identifier.
func TestSavedRunDir(t *testing.T) {
	e := newEnv(t)
	saves(t, e)
	m, id := e.start(t)
	const read = "cat /run/e2b/.E2B_SANDBOX_ID"
	if got := sh(t, m, "user", read); got != string(id) {
		t.Errorf("%s is told to be %q", id, got)
	}
	dir := save(t, m, sandbox.SaveOptions{})
	one, two := sh(t, e.restored(t, dir), "user", read), sh(t, e.restored(t, dir), "user", read)
	if one == two || one == string(id) || two == string(id) || len(one) != len(id) || len(two) != len(id) {
		t.Errorf("children of %s are told to be %q and %q", id, one, two)
	}
}
