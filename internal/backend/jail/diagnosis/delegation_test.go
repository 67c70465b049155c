package diagnosis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDelegation(t *testing.T) {
	manager := t.TempDir()
	if err := os.MkdirAll(filepath.Join(manager, "systemd/private"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		uid        int
		dir, wants string
	}{
		{0, manager, "/sys/fs/cgroup writable"},
		{1000, manager, "systemd-run --user --scope -p Delegate=yes"},
		{1000, t.TempDir(), "Delegate a control group"},
		{1 << 30, "", "Delegate a control group"}, // no such user is logged in
	} {
		if got := delegation(c.uid, c.dir); !strings.Contains(got, c.wants) {
			t.Errorf("uid %d: %q", c.uid, got)
		}
	}
}
