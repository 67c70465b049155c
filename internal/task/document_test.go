package task_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/repo"
)

// shelf has the documents "prd" and "style" of account a, and remembers what it was asked.
type shelf struct{ asked []string }

func (s *shelf) Read(_ context.Context, account string, repositories, names []string) (out []api.Document, err error) {
	s.asked = append(s.asked, fmt.Sprint(account, " ", repositories, " ", names))
	for _, n := range names {
		if account != "a" || n != "prd" && n != "style" {
			return nil, api.Errorf(api.KindNotFound, "no document %s", n)
		}
		out = append(out, api.Document{Name: n, Text: "text of " + n, Version: 4})
	}
	return out, nil
}

// idle ends each task on a repository at once.
type idle struct{ task.Repositories }

func (idle) Run(context.Context, repo.Job) repo.End { return repo.End{Outcome: api.OutcomeNeedsHuman} }
func (idle) Diff(context.Context, api.Task, int, string) (io.ReadCloser, error) {
	return nil, api.Errorf(api.KindNotFound, "none")
}

// TestDocumentsOfRequest: a stored task has the texts and versions of the stored documents that its request names, of its own
// account, and the paths of the others.
func TestDocumentsOfRequest(t *testing.T) {
	s := &shelf{}
	e, _, _ := newEngine(t, func(cfg *task.Config) { cfg.Repositories, cfg.Documents = idle{}, s })
	request := func(account string, change func(*api.RepoTask)) api.CreateTask {
		r := api.RepoTask{URL: "/r", Author: api.Identity{Name: "A", Email: "a@example.org"}, Context: []api.Document{{Name: "notes", Text: "mine"}}}
		change(&r)
		return api.CreateTask{Request: "x", Model: "offline", Repo: &r, Sandbox: api.CreateSandbox{Account: account}}
	}
	const file = ".hortus/context/style.md"
	got, err := e.Create(t.Context(), request("a", func(r *api.RepoTask) { r.Documents = []string{"style", file, "prd"} }))
	if err != nil {
		t.Fatal(err)
	}
	want := []api.Document{{Name: "notes", Text: "mine"}, {Name: "style", Text: "text of style", Version: 4}, {Name: "prd", Text: "text of prd", Version: 4}}
	if r := got.Create.Repo; !slices.Equal(r.Context, want) || !slices.Equal(r.Documents, []string{file}) {
		t.Errorf("%+v, %q", r.Context, r.Documents)
	}
	if !slices.Equal(s.asked, []string{"a [/r] [style prd]"}) {
		t.Errorf("asked %q", s.asked)
	}
	// What is stored is checked again when the task is continued, and not read again.
	if _, err := e.CheckTurn(t.Context(), got.Create); err != nil || len(s.asked) != 1 {
		t.Errorf("%v, asked %q", err, s.asked)
	}
	nine := strings.Fields("a b c d e f g h")
	for name, c := range map[string]struct {
		account string
		kind    api.Kind
		change  func(*api.RepoTask)
	}{
		"another account":    {"b", api.KindNotFound, func(r *api.RepoTask) { r.Documents = []string{"prd"} }},
		"unknown":            {"a", api.KindNotFound, func(r *api.RepoTask) { r.Documents = []string{"prd", "other"} }},
		"twice":              {"a", api.KindInvalid, func(r *api.RepoTask) { r.Documents = []string{"prd", "prd"} }},
		"too many":           {"a", api.KindInvalid, func(r *api.RepoTask) { r.Documents = nine }},
		"outside":            {"a", api.KindInvalid, func(r *api.RepoTask) { r.Documents = []string{".hortus/context/../../secret.md"} }},
		"another directory":  {"a", api.KindInvalid, func(r *api.RepoTask) { r.Documents = []string{".hortus/setup.yaml"} }},
		"absolute":           {"a", api.KindInvalid, func(r *api.RepoTask) { r.Documents = []string{"/.hortus/context/x.md"} }},
		"without an agent":   {"a", api.KindInvalid, func(r *api.RepoTask) { r.Documents, r.PrepareOnly = []string{"prd"}, true }},
		"of a subdirectory":  {"a", "", func(r *api.RepoTask) { r.Documents = []string{"lib/.hortus/context/x.md"} }},
		"several documents":  {"a", "", func(r *api.RepoTask) { r.Documents = []string{"prd", "style"} }},
		"nothing is changed": {"b", "", func(*api.RepoTask) {}},
	} {
		if _, err := e.Create(t.Context(), request(c.account, c.change)); api.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	none, _, _ := newEngine(t, func(cfg *task.Config) { cfg.Repositories = idle{} })
	if _, err := none.Create(t.Context(), request("a", func(r *api.RepoTask) { r.Documents = []string{"prd"} })); api.KindOf(err) != api.KindUnsupported {
		t.Error(err)
	}
}
