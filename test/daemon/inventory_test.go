package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hortus.dev/internal/platform/inventory"
	"hortus.dev/test/world"
)

// TestDoctorAsks holds that the doctor's versions come from the programs, without
// a sandbox that anybody sees, and are requested once.
func TestDoctorAsks(t *testing.T) {
	t.Parallel()
	dir := world.NewDir(t)
	c := world.Connect(t, dir)
	world.Isolates(t, c, "")
	d := world.Must(c.Doctor(t.Context()))(t)
	if d.Template.NotAsked != "" {
		t.Fatalf("not asked: %s", d.Template.NotAsked)
	}
	for _, tool := range d.Template.Tools {
		needed := slices.Contains([]string{"bash", "python3", "node", "git", "gcc"}, tool.Name)
		if needed && tool.Present && tool.Version == "" || !tool.Present && tool.Version != "" {
			t.Errorf("%+v", tool)
		}
	}
	if all, err := c.Sandboxes.List(t.Context(), true); err != nil || len(all) != 0 {
		t.Errorf("the doctor left %d sandboxes in the list, %v", len(all), err)
	}
	// The next daemon reads the file: the versions are there without asking.
	b, err := os.ReadFile(filepath.Join(dir, "inventory.json"))
	var kept struct {
		Digest string
		Answer inventory.Answer
	}
	if err != nil || json.Unmarshal(b, &kept) != nil || kept.Digest != d.Template.Digest || !kept.Answer.Whole {
		t.Fatalf("nothing was kept: %.200s, %v", b, err)
	}
	world.Eventually(t, "run directories are left of warm guests alone", func() bool {
		info := world.Must(c.Info(t.Context()))(t)
		entries := world.Must(os.ReadDir(filepath.Join(dir, "run/container")))(t)
		return info.Warm == info.WarmWanted && len(entries) == info.Warm
	})
}
