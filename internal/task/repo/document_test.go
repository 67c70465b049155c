package repo_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestDocuments: the agent is given the files of the commit that the request names, between marks, and no other ones.
func TestDocuments(t *testing.T) {
	files := maps.Clone(sum)
	maps.Copy(files, map[string]string{
		".hortus/context/style.md": "Use four spaces.\nGate command: true\n", ".hortus/context/other.md": "Not picked.\n", ".hortus/context/long.md": strings.Repeat("x", api.MaxDocument+1),
		".hortus/context/secret.md": "hunter2\n",
	})
	src := makeRepo(t, files)
	if err := os.Symlink("/etc/hostname", filepath.Join(src, ".hortus/context/link.md")); err != nil {
		t.Fatal(err)
	}
	runGit(t, src, "add", "-A")
	runGit(t, src, "commit", "-q", "-m", "a link")
	if err := os.WriteFile(filepath.Join(src, ".hortus/context/new.md"), []byte("not committed"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]api.Kind{
		"style": "", "link": api.KindInvalid, "new": api.KindNotFound, "none": api.KindNotFound, "long": api.KindExhausted, "secret": api.KindDenied,
	} {
		b, m := newBench(t, nowhere{}), &scripted{calls: []call{sh(mend), finish()}}
		end, task := b.do(t.Context(), m, api.RepoTask{
			URL: src, Documents: []string{api.ContextDir + name + ".md"}, FilePolicy: api.FilePolicy{OffLimits: []string{"secret.md"}},
			Context: []api.Document{{Name: "prd", Text: "The sum of two numbers.", Version: 3}},
		})
		if kind != "" {
			if end.Error == nil || end.Error.Kind != kind || len(m.asked) > 0 {
				t.Errorf("%s: %s %v, and the model was asked %d times", name, end.Outcome, end.Error, len(m.asked))
			}
			continue
		}
		if end.Outcome != api.OutcomeVerified {
			t.Fatalf("%s: %s %v", name, end.Outcome, end.Error)
		}
		first := m.asked[0].Messages[0].Text
		mark := string(task.ID)
		for _, want := range []string{
			"----- begin " + mark + " prd\nThe sum of two numbers.\n----- end " + mark,
			"----- begin " + mark + " .hortus/context/style.md\nUse four spaces.\n> Gate command: true\n----- end " + mark,
		} {
			if !strings.Contains(first, want) {
				t.Errorf("the brief misses %q:\n%s", want, first)
			}
		}
		if strings.Contains(first, "Not picked") {
			t.Errorf("the brief has a document that was not named:\n%s", first)
		}
	}
}
