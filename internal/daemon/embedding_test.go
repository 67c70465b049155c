package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/tally"
	"hortus.dev/test/embedserver"
	"hortus.dev/test/modelserver"
)

// fails is a program's task of a scripted model: it fails with a text, and the Debugger, which is asked what a line
// says, corrects it.
func fails(t *testing.T, text, asked string) string {
	t.Helper()
	program := func(src string) *api.CodeArtifact {
		return &api.CodeArtifact{Language: api.Bash, Files: []api.File{{Path: "main.sh", Content: src}}, Run: "bash main.sh", Output: api.OutputText}
	}
	step := func(head string, v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return "-- step --\nanswer: output\n" + head + "\n" + string(b) + "\n"
	}
	return step("output: ExecutionPlan\n", api.ExecutionPlan{Language: api.Bash, Shell: "bash", Task: "print", Output: api.OutputText}) +
		step("output: CodeArtifact\n", program("echo '"+text+"' >&2\nexit 1\n")) +
		step(asked, api.Diagnosis{Category: api.CategoryName, Cause: "The planet was wrong.", Artifact: program("echo 7\n")})
}

// TestEmbeddingModel: a daemon with an embedding model finds lessons by it, says so, and embeds them anew when it is
// started with another one. One that is not usable is an error of the start.
func TestEmbeddingModel(t *testing.T) {
	const (
		absent = "LoaderError: dependency lacking when loading numpy"
		same   = "LoaderError: package missing when importing numpy"
		again  = "LoaderError: library absent when importing numpy"
	)
	words := embedserver.New(128, map[string]string{"lacking": "missing", "dependency": "package", "loading": "importing", "library": "package", "absent": "missing"})
	models, err := modelserver.New([]byte(fails(t, absent, "lacks: The planet was wrong\n") + fails(t, same, "lacks: The planet was wrong\n") +
		fails(t, again, "expect: The planet was wrong\n") + fails(t, absent+" "+"in vain and for ever", "expect: The planet was wrong\n")))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/embeddings", words)
	mux.Handle("/", models)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	env := map[string]string{"OPENAI_BASE_URL": srv.URL + "/v1"}
	cfg := Config{DataDir: t.TempDir(), Pool: -1, Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Getenv: func(name string) string { return env[name] }}
	withTemplate(t, cfg)
	ctx := api.WithPrincipal(t.Context(), api.Operator())
	// run has a daemon with an embedding model do one task.
	run := func(embedding string) api.Task {
		t.Helper()
		cfg.Embedding = embedding
		s, err := Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		made, err := s.tasks.Create(ctx, api.CreateTask{Request: "Print a number", Model: "openai:scripted", Sandbox: api.CreateSandbox{Isolation: "process"}})
		if err != nil {
			t.Fatal(err)
		}
		done, err := s.tasks.Wait(ctx, made.ID)
		if err != nil || done.Outcome != api.OutcomeVerified || len(done.Attempts) != 2 {
			t.Fatalf("%+v, %v, problems %v", done, err, models.Problems())
		}
		var stored []string
		all, _, err := s.db.LessonPage(ctx, "", "", api.PageRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range all {
			stored = append(stored, l.Vector)
		}
		for _, have := range stored {
			if have != embedding {
				t.Errorf("with the model %q the lessons have vectors of %q", embedding, stored)
			}
		}
		d, err := status{s}.Doctor(ctx)
		if err != nil {
			t.Fatal(err)
		}
		last := d.Models[len(d.Models)-1]
		if reported := last.Name == "embedding" && last.OK && last.Model == embedding; reported != (embedding != "") {
			t.Errorf("with the model %q the doctor says %+v", embedding, last)
		}
		return done
	}
	first := run("")
	second := run("") // the control
	if len(words.Calls()) != 0 || len(first.Lessons)+len(second.Lessons) != 0 {
		t.Errorf("without a model: lessons %v, %d calls", second.Lessons, len(words.Calls()))
	}
	third := run("openai:words")
	if third.LessonsBy["vector"] == 0 || len(third.LessonsBy) > 2 {
		t.Errorf("by vector: %v", third.LessonsBy)
	}
	words.Resize(64)
	fourth := run("openai:other")
	if len(fourth.Lessons) == 0 || len(words.Models()) == 0 || words.Models()[len(words.Models())-1] != "other" {
		t.Errorf("after a restart with another model: %v, asked %v", fourth.LessonsBy, words.Models())
	}
	if p := models.Problems(); len(p) > 0 {
		t.Error(p)
	}
	y := tally.New(third.CreatedAt)
	y.Add(third)
	if got := y.Stats().Lessons.By["vector"]; got.Lessons != third.LessonsBy["vector"] || got.Verified != got.Lessons {
		t.Errorf("the statistics have %+v", got)
	}

	for _, bad := range []struct {
		name, base, says string
		kind             api.Kind
	}{
		{"openai:words", "", "OPENAI_API_KEY", api.KindUnauthenticated},
		{"words", srv.URL + "/v1", "openai:MODEL", api.KindInvalid},
		{"openai:words", "localhost", "base URL", api.KindInvalid},
	} {
		env["OPENAI_BASE_URL"], cfg.Embedding, cfg.DataDir = bad.base, bad.name, t.TempDir()
		s, err := Open(ctx, cfg)
		if err == nil {
			s.Close(context.Background())
		}
		text := ""
		if err != nil {
			text = err.Error() + "; " + api.HintOf(err)
		}
		if api.KindOf(err) != bad.kind || !strings.Contains(text, "model.embedding") || !strings.Contains(text, bad.says) {
			t.Errorf("%+v: %v", bad, text)
		}
	}
}

// TestEmbeddingSettings: the model and the similarity are settings, and off by default.
func TestEmbeddingSettings(t *testing.T) {
	empty := ""
	for text, want := range map[string]struct {
		model      string
		similarity float64
	}{
		"": {"", 0.6},
		"[model]\nembedding = 'openai:words'\nembedding-similarity = 0.8\n": {"openai:words", 0.8},
	} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := loadSettings(path, map[string]*string{"data-dir": &empty})
		if err != nil || got.Embedding != want.model || got.Similarity != want.similarity {
			t.Errorf("%q: %q, %v, %v", text, got.Embedding, got.Similarity, err)
		}
	}
	t.Setenv("HORTUS_EMBEDDING_SIMILARITY", "1.5")
	if _, err := loadSettings(os.DevNull, map[string]*string{"data-dir": &empty}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a similarity above 1: %v", err)
	}
}
