package task

import (
	"os"
	"testing"

	"hortus.dev/api"
)

// TestOutGoesOn: of a task's files one whose name cannot be kept does not keep the
// others from being written.
func TestOutGoesOn(t *testing.T) {
	dir := t.TempDir()
	out, err := openOut(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	task := api.Task{Attempts: []api.Attempt{{Artifact: api.CodeArtifact{
		Files: []api.File{{Path: "../evil"}, {Path: "a\u009bb"}, {Path: "last"}},
	}}}}
	if err := out.write(task); err == nil {
		t.Error("nothing is said of the two that are missing")
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != "last" {
		t.Errorf("%v, %v", list, err)
	}
}
