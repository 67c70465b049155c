package story

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"hortus.dev/api/admin"
)

// ownMachine keeps a test that changes a setting of the whole machine from
// machines where others live.
func ownMachine(t *testing.T) {
	t.Helper()
	if os.Getenv("HORTUS_TEST_MACHINE") != "own" || os.Geteuid() != 0 {
		t.Skip("it changes a setting of the whole machine, as root; make test-vm runs it in a machine of its own")
	}
}

// TestUserNamespacesForRootOnly is of Debian's own switch: an ordinary user gets
// one message with cause and fix and the exit code 4, root is not concerned, and
// the fix helps.
func TestUserNamespacesForRootOnly(t *testing.T) {
	ownMachine(t)
	const setting = "/proc/sys/kernel/unprivileged_userns_clone"
	before, err := os.ReadFile(setting)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("this kernel is not Debian's: it has no kernel.unprivileged_userns_clone")
	}
	set := func(value string) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(setting, []byte(value), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(string(before)) })
	const want = "2, 3, 5, 7, 11"
	as := func(g *garden, become []string, command string) result {
		script := command + "\ncode=$?\nhortus daemon stop --force >/dev/null 2>&1\nexit $code"
		return g.outside(append(append([]string{}, become...), "sh", "-c", script)...)
	}
	set("0")
	root := newEmptyGarden(t)
	if r := as(root, nil, "hortus run --quiet 'print the first 5 primes'"); r.code != 0 || !strings.Contains(r.stdout, want) {
		t.Errorf("run as root: %s", r)
	}
	g := newEmptyGarden(t)
	become := ordinary(t, g)
	const cause, fix = "kernel.unprivileged_userns_clone is 0", "kernel.unprivileged_userns_clone to 1"
	r := as(g, become, "hortus run 'print the first 5 primes'")
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	if r.code != 4 || r.stdout != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "hortus: ") || !strings.Contains(lines[0], cause) ||
		!strings.HasPrefix(lines[1], "  next: ") || !strings.Contains(lines[1], fix) {
		t.Errorf("run as an ordinary user: not one message with %q and %q and the code 4: %s", cause, fix, r)
	}
	if r = as(g, become, "hortus doctor --json"); r.code != 4 {
		t.Errorf("doctor: %s", r)
	} else if d := decode[admin.Doctor](t, r.stdout); d.Auto != "" || !strings.Contains(d.AutoWhy, cause) || !strings.Contains(d.AutoWhy, fix) {
		t.Errorf("doctor chooses %q: %s", d.Auto, d.AutoWhy)
	}
	set("1")
	if r := as(g, become, "hortus run --quiet 'print the first 5 primes'"); r.code != 0 || !strings.Contains(r.stdout, want) {
		t.Errorf("run after the fix: %s", r)
	}
}
