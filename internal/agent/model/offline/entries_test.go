package offline

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline/repair"
)

// TestCatalogueExamples plans and writes the program of each entry's example, and runs it.
func TestCatalogueExamples(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	var names []string
	for _, e := range m.Catalogue() {
		names = append(names, e.Name)
		if e.Does == "" || e.Example == "" || len(e.Languages) == 0 {
			t.Errorf("the entry is not complete: %+v", e)
			continue
		}
		switch e.Kind {
		case api.CatalogueProgram:
			exampleRuns(t, m, e)
		case api.CatalogueGiven:
			p, err := m.plan(e.Example)
			if err != nil || p.Parameters["code"] == "" {
				t.Errorf("%q: %+v, %v", e.Example, p, err)
			}
		case api.CatalogueRepository:
			brief := model.Message{Role: model.RoleUser, Text: "Request:\n" + e.Example + "\n\nGate command: make test\n"}
			if err := repair.Accepts([]model.Message{brief}, []model.Tool{{Name: "shell"}, {Name: "view"}, {Name: "str_replace"}, {Name: "finish"}}); err != nil {
				t.Errorf("%q: %v", e.Example, err)
			}
		}
	}
	for _, rc := range recipes() {
		if !slices.Contains(names, rc.name) {
			t.Errorf("recipe %s is not listed", rc.name)
		}
	}
	for name := range readExamples() {
		if !slices.Contains(names, name) {
			t.Errorf("there is an example for %s, which is no recipe", name)
		}
	}
}

// exampleRuns plans a sentence, writes its program in each language and runs it in the
// planned one.
func exampleRuns(t *testing.T, m *Model, e api.CatalogueEntry) {
	t.Helper()
	p, err := m.plan(e.Example)
	if err != nil {
		t.Errorf("%s: %q is declined: %v", e.Name, e.Example, err)
		return
	}
	if p.Parameters[programKey] != e.Name {
		t.Errorf("%q means %s, not %s", e.Example, p.Parameters[programKey], e.Name)
	}
	for _, lang := range e.Languages {
		q := *p
		q.Language = lang
		a, err := m.code(q)
		if err != nil {
			t.Errorf("%q in %s: %v", e.Example, lang, err)
			continue
		}
		if lang != p.Language || len(p.Dependencies) > 0 {
			continue // TestMatching runs both languages; a library may not be on this machine
		}
		needInterpreter(t, lang)
		if res := runLocal(t, *a, 20*time.Second); !res.OK || strings.TrimSpace(res.Stdout) == "" {
			t.Errorf("%q in %s: %+v", e.Example, lang, res)
		}
	}
}
