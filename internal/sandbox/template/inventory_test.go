package template

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/platform/inventory"
)

func TestInventoryFile(t *testing.T) {
	s := NewInventory(InventoryConfig{File: filepath.Join(t.TempDir(), "inventory.json")})
	want := inventory.Answer{Versions: map[string]string{"git": "2.39.5"}, Asked: []api.Language{api.Python}, Whole: true}
	if _, ok := s.load("d"); ok {
		t.Error("an answer came from no file")
	}
	s.save("d", want)
	if _, ok := s.load("another"); ok {
		t.Error("an answer for another fingerprint was taken")
	}
	if got, ok := s.load("d"); !ok || got.Versions["git"] != "2.39.5" {
		t.Errorf("%+v, %v", got, ok)
	}
	whole, err := os.ReadFile(s.File)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"cut short":      whole[:len(whole)/2],
		"empty":          {},
		"another script": []byte(`{"digest":"d","script":"echo","answer":{"whole":true}}`),
	} {
		if err := os.WriteFile(s.File, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := s.load("d"); ok {
			t.Errorf("a file that is %s was taken", name)
		}
	}
}
