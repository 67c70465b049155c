package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestRunNamesModelsAndTheRecording(t *testing.T) {
	d := verified()
	d.task.Models = api.Models{Planner: "small", Coder: "big", Debugger: "big", Large: "\x1b[31mhuge"}
	d.events = append([]api.Event{
		event(1, api.EventTaskCreated, d.task),
		event(2, api.EventEscalation, api.EscalationEvent{Attempt: 2, Of: 3, Role: "debugger", From: "big", To: "huge", Why: "the failure syntax occurred again"}),
		event(3, api.EventEscalation, api.EscalationEvent{Role: "planner", From: "small", To: "huge", Why: "the model declined the request"}),
	}, event(4, api.EventTaskFinished, d.task))
	code, _, stderr := run(t, d.start(t), "", nil, "run", "--model", "planner=small,coder=big,debugger=big,large=huge", "--record", "r.jsonl", "a sentence")
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, want := range []string{
		`[task 4f2a] models: planner small, coder big, debugger big, large \x1b[31mhuge`,
		`[task 4f2a] [debugger] [attempt 2/3] changes from big to huge: the failure syntax occurred again`,
		`[task 4f2a] [planner] changes from small to huge: the model declined the request`,
	} {
		if !strings.Contains(stderr, want+"\n") {
			t.Errorf("%q is not in\n%s", want, stderr)
		}
	}
	want := api.Models{Planner: "small", Coder: "big", Debugger: "big", Large: "huge"}
	if d.created.Models != want || d.created.Model != "" || !filepath.IsAbs(d.created.Record) || filepath.Base(d.created.Record) != "r.jsonl" {
		t.Errorf("created %+v", d.created)
	}
	if code, _, stderr := run(t, d.start(t), "", nil, "run", "--model", "painter=x", "a sentence"); code != 2 || !strings.Contains(stderr, "next: the roles are planner, coder, debugger, large") {
		t.Errorf("%d %s", code, stderr)
	}
	code, stdout, stderr := run(t, d.start(t), "", nil, "task", "show", "4f2a")
	if code != 0 || !strings.Contains(stdout, "planner small, coder big") {
		t.Errorf("%d %s %s", code, stdout, stderr)
	}
}
