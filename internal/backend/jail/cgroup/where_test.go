package cgroup

import (
	"strings"
	"testing"
)

// FuzzAt: a record's places are looked at, not believed.
func FuzzAt(f *testing.F) {
	f.Add("/sys/fs/cgroup", "/sys/fs/cgroup", "memory", "/sys/fs/cgroup")
	f.Add("/etc", "", "memory", "/etc")
	f.Add("../x", "", "", "")
	f.Fuzz(func(t *testing.T, parent, unified, controller, place string) {
		w := Where{Parents: []string{parent}, Unified: unified, Controllers: map[Controller]string{Controller(controller): place}}
		if _, err := At("id", w); err == nil && !strings.HasPrefix(parent, "/sys/fs/cgroup") && !strings.Contains(parent, "cgroup") {
			t.Errorf("%q was taken for a place of control groups", parent)
		}
	})
}
