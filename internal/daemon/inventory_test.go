package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/platform/inventory"
)

// TestDoctorAsks holds that the doctor's versions come from the programs, without
// a sandbox that anybody sees, and are asked for once.
func TestDoctorAsks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := connect(t, dir)
	isolated(t, c)
	d, err := c.Doctor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
	// The next daemon reads the file.
	s := &shelf{file: filepath.Join(dir, "inventory.json")}
	a, ok := s.load(d.Template.Digest)
	if !ok || !a.Whole {
		t.Fatalf("nothing was kept: %+v", a)
	}
	if _, ok := s.load("host-of-another-fingerprint"); ok {
		t.Error("an answer for another fingerprint was taken")
	}
	eventually(t, "run directories are left of warm guests alone", func() bool {
		info, err := c.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(dir, "run/container"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Warm == info.WarmWanted && len(entries) == info.Warm
	})
}

func TestShelfFile(t *testing.T) {
	s := &shelf{file: filepath.Join(t.TempDir(), "inventory.json")}
	want := inventory.Answer{Versions: map[string]string{"git": "2.39.5"}, Asked: []api.Language{api.Python}, Whole: true}
	if _, ok := s.load("d"); ok {
		t.Error("an answer came from no file")
	}
	s.save("d", want)
	if got, ok := s.load("d"); !ok || got.Versions["git"] != "2.39.5" {
		t.Errorf("%+v, %v", got, ok)
	}
	whole, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"cut short":      whole[:len(whole)/2],
		"empty":          {},
		"another script": []byte(`{"digest":"d","script":"echo","answer":{"whole":true}}`),
	} {
		if err := os.WriteFile(s.file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := s.load("d"); ok {
			t.Errorf("a file that is %s was taken", name)
		}
	}
}
