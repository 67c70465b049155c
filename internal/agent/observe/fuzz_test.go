package observe

import (
	"testing"
	"unicode/utf8"

	"hortus.dev/api"
)

func FuzzCategorize(f *testing.F) {
	f.Add(1, "Traceback (most recent call last):\n  File \"a.py\", line 1\nNameError: name 'x' is not defined\n")
	f.Add(127, "bash: x: command not found\n")
	f.Add(1, "/a.js:1\nReferenceError: x is not defined\n")
	f.Fuzz(func(t *testing.T, code int, stderr string) {
		for _, p := range []api.Phase{api.PhaseRun, api.PhaseInstall} {
			if Categorize(p, api.Exit{Code: code}, stderr) == "" {
				t.Error("a failure without a category")
			}
		}
		for _, category := range []api.Category{api.CategoryImport, api.CategoryCommand} {
			for _, lang := range []api.Language{api.Python, api.JavaScript} {
				if name := Missing(lang, category, stderr); len(name) > maxName || name != "" && !plainName.MatchString(name) {
					t.Errorf("missing %q", name)
				}
			}
		}
		c := &Capture{}
		if _, err := c.Write([]byte(stderr)); err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(c.Text()) {
			t.Error("the observation is no text")
		}
	})
}
