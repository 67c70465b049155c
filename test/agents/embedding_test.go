package agents

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/task/tally"
	"hortus.dev/test/embedserver"
	"hortus.dev/test/modelserver"
	"hortus.dev/test/world"
)

// fails is a program's task of a scripted model: it fails with a text, and the Debugger, which is asked what a line
// says, corrects it.
func fails(t *testing.T, text, asked string) string {
	t.Helper()
	program := func(src string) *api.CodeArtifact {
		return &api.CodeArtifact{Language: api.Bash, Files: []api.File{{Path: "main.sh", Content: src}}, Run: "bash main.sh", Output: api.OutputText}
	}
	step := func(head string, v any) string {
		b := world.Must(json.Marshal(v))(t)
		return "-- step --\nanswer: output\n" + head + "\n" + string(b) + "\n"
	}
	return step("output: ExecutionPlan\n", api.ExecutionPlan{Language: api.Bash, Shell: "bash", Task: "print", Output: api.OutputText}) +
		step("output: CodeArtifact\n", program("echo '"+text+"' >&2\nexit 1\n")) +
		step(asked, api.Diagnosis{Category: api.CategoryName, Cause: "The planet was wrong.", Artifact: program("echo 7\n")})
}

// TestEmbeddingModel: a daemon with an embedding model finds lessons by it, says so, and embeds them anew when it is
// started with another one. One that is not usable is an error of the start.
func TestEmbeddingModel(t *testing.T) {
	t.Parallel()
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
	getenv := func(name string) string { return env[name] }
	w := world.Open(t, world.Config{Config: daemon.Config{Getenv: getenv}})
	ctx := t.Context()
	// run has a daemon with an embedding model do one task.
	run := func(embedding string) api.Task {
		t.Helper()
		w.Config.Embedding = embedding
		w.Restart()
		done, _ := world.RunTask(t, w.Client, api.CreateTask{Request: "Print a number", Model: "openai:scripted", Sandbox: api.CreateSandbox{Isolation: "process"}})
		if done.Outcome != api.OutcomeVerified || len(done.Attempts) != 2 {
			t.Fatalf("%+v, problems %v", done, models.Problems())
		}
		all, _, err := w.DB.LessonPage(ctx, "", "", api.PageRequest{})
		if err != nil || slices.ContainsFunc(all, func(l api.Lesson) bool { return l.Vector != embedding }) {
			t.Errorf("with the model %q the lessons are %+v, %v", embedding, all, err)
		}
		d := world.Must(w.Client.Doctor(ctx))(t)
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
		env["OPENAI_BASE_URL"] = bad.base
		err := world.Refuses(t, world.Config{Config: daemon.Config{Getenv: getenv, Embedding: bad.name}})
		text := ""
		if err != nil {
			text = err.Error() + "; " + api.HintOf(err)
		}
		if api.KindOf(err) != bad.kind || !strings.Contains(text, "model.embedding") || !strings.Contains(text, bad.says) {
			t.Errorf("%+v: %v", bad, text)
		}
	}
}
