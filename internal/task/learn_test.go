package task_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task"
	"hortus.dev/internal/task/lesson"
	"hortus.dev/test/agenttest"
)

// forgetful makes the same mistake in each program, and corrects it. It keeps what its Debugger was asked.
type forgetful struct {
	mu    sync.Mutex
	asked []api.DebugRequest
}

func (*forgetful) Name() string { return "forgetful" }

func (f *forgetful) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	answer := func(v any) (model.Response, error) {
		b, err := json.Marshal(v)
		return model.Response{Message: model.Message{Role: model.RoleAssistant, Text: string(b)}, Stop: model.StopEnd}, err
	}
	switch req.Output.Name {
	case "ExecutionPlan":
		return answer(api.ExecutionPlan{Language: api.Python, Shell: "bash", Task: "print", Output: api.OutputText})
	case "CodeArtifact":
		return answer(script("print(totl_of_invoice)\n"))
	}
	var in api.DebugRequest
	if err := json.Unmarshal([]byte(req.Messages[0].Text), &in); err != nil {
		return model.Response{}, err
	}
	f.mu.Lock()
	f.asked = append(f.asked, in)
	f.mu.Unlock()
	return answer(api.Diagnosis{Category: api.CategoryName, Cause: "The name is misspelled.", Artifact: script("print(7)\n")})
}

// last is what the Debugger was asked last.
func (f *forgetful) last() api.DebugRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[len(f.asked)-1]
}

// TestLessons: what fixed a failure is given to the Debugger of the next task that has it, and the task says so.
func TestLessons(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	m, mem := &forgetful{}, newMemory()
	e := engineWith(t, mem, agenttest.NewLocaldir(t), []model.Model{m}, func(cfg *task.Config) {
		cfg.Lessons, cfg.Record = lesson.New(lesson.Config{Rows: db}), record
	})
	offered := func(id api.TaskID) (out []api.LessonsEvent) {
		for _, ev := range mem.of(id) {
			if ev.Type == api.EventLessons {
				var o api.LessonsEvent
				if err := json.Unmarshal(ev.Data, &o); err != nil {
					t.Fatal(err)
				}
				out = append(out, o)
			}
		}
		return out
	}
	req := api.CreateTask{Request: "Print the total", Model: "forgetful"}
	first := done(t, e, req)
	if first.Outcome != api.OutcomeVerified || len(first.Attempts) != 2 || len(m.last().Known) != 0 || len(first.Lessons) != 0 || len(offered(first.ID)) != 0 {
		t.Fatalf("%+v, known %v", first, m.last().Known)
	}

	second := done(t, e, req)
	known := m.last().Known
	if len(known) != 1 || !strings.Contains(known[0].Failure, "totl_of_invoice") || !strings.Contains(known[0].Fix, "-print(totl_of_invoice)\n+print(7)") || !strings.HasPrefix(known[0].Fix, "The name is misspelled.") {
		t.Fatalf("known: %+v", known)
	}
	said := offered(second.ID)
	if len(said) != 1 || len(second.LessonsBy) != 1 || second.LessonsBy["fingerprint"] != 1 || said[0].Lessons[0].By != api.LessonByFingerprint {
		t.Fatalf("found by %v, events %+v", second.LessonsBy, said)
	}
	if len(second.Lessons) != 1 || len(said) != 1 || said[0].Attempt != 1 || said[0].Lessons[0].ID != second.Lessons[0] || said[0].Lessons[0].Task != first.ID {
		t.Errorf("lessons %v, events %+v", second.Lessons, said)
	}
	found, err := db.FindLesson(t.Context(), "", second.Lessons[0])
	if err != nil || found.Offered != 1 || found.Helped != 1 || found.Seen != 2 || found.Task != second.ID {
		t.Errorf("%+v, %v", found, err)
	}

	// A recording must ask its model the same when it is replayed, whatever was learned since.
	path := filepath.Join(t.TempDir(), "recording")
	recorded := req
	recorded.Record = path
	if got := done(t, e, recorded); got.Outcome != api.OutcomeVerified || len(got.Lessons) != 0 || len(m.last().Known) != 0 {
		t.Errorf("a recorded task: %+v", got)
	}
	if got := done(t, e, api.CreateTask{Request: req.Request, Model: "replay:" + path}); got.Outcome != api.OutcomeVerified || len(got.Lessons) != 0 {
		t.Errorf("a replayed task: %+v", got)
	}
}
