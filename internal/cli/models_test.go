package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestModelFlag(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   string
		all  string
		by   api.Models
		fail string
	}{
		{in: "offline", all: "offline"},
		{in: "a:b/c-4.1", all: "a:b/c-4.1"},
		{in: "replay:x.jsonl", all: "replay:" + filepath.Join(dir, "x.jsonl")},
		{in: "replay:/a/b=c.jsonl", all: "replay:/a/b=c.jsonl"},
		{in: "planner=small,coder=big", by: api.Models{Planner: "small", Coder: "big"}},
		{in: "offline,large=a:big", all: "offline", by: api.Models{Large: "a:big"}},
		{in: "planner=p, coder= c ", by: api.Models{Planner: "p", Coder: "c"}},
		{in: "debugger=replay:/x/../y,planner=p,coder=c", by: api.Models{Planner: "p", Coder: "c", Debugger: "replay:/y"}},
		{in: "painter=x", fail: `no role "painter"`},
		{in: "a,b", fail: "two models for all roles"},
		{in: "planner=a,planner=b", fail: "two models for the planner"},
		{in: "planner=", fail: "empty name"},
		{in: "a,", fail: "empty name"},
		{in: "=a", fail: "names no role"},
		{in: "replay:", fail: "names no file"},
	} {
		var m modelNames
		err := m.UnmarshalText([]byte(c.in))
		if c.fail != "" {
			if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.fail) || api.HintOf(err) == "" && !strings.Contains(c.fail, "two models for the") {
				t.Errorf("%q: %v (%s)", c.in, err, api.HintOf(err))
			}
			continue
		}
		if err != nil || m.all != c.all || m.by != c.by {
			t.Errorf("%q: %+v %v", c.in, m, err)
		}
	}
}

func TestRunNamesModelsAndTheRecording(t *testing.T) {
	d := verified()
	d.task.Models = api.Models{Planner: "small", Coder: "big", Debugger: "big", Large: "\x1b[31mhuge"}
	d.events = append([]api.Event{
		event(1, api.EventTaskCreated, d.task),
		event(2, api.EventEscalation, api.EscalationEvent{Attempt: 2, Of: 3, Role: "debugger", From: "big", To: "huge", Why: "the failure syntax came again"}),
		event(3, api.EventEscalation, api.EscalationEvent{Role: "planner", From: "small", To: "huge", Why: "it declines"}),
	}, event(4, api.EventTaskFinished, d.task))
	code, _, stderr := run(t, d.start(t), "", nil, "run", "--model", "planner=small,coder=big,debugger=big,large=huge", "--record", "r.jsonl", "a sentence")
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, want := range []string{
		`[task 4f2a] models: planner small, coder big, debugger big, large \x1b[31mhuge`,
		`[task 4f2a] [debugger] [attempt 2/3] moves from big to huge: the failure syntax came again`,
		`[task 4f2a] [planner] moves from small to huge: it declines`,
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
