package task_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestGivenFiles: the files of a request are in the program's directory in every attempt, in
// a replay and after a reply, and no record has their content.
func TestGivenFiles(t *testing.T) {
	e, mem, _ := newEngine(t)
	const secret = "7 of hearts"
	files := []api.InputFile{{Path: "data/card.txt", Content: []byte("first\n" + strings.Repeat("x", 2000) + secret)}, {Path: "a.bin", Content: []byte{0, 255}}}
	// The first attempt fails and spoils the file; the second one has it as it was.
	const program = "Run this Python:\ntext = open('data/card.txt').read()\nopen('data/card.txt', 'w').write('spoiled')\nprint(text[-11:], len(open('a.bin', 'rb').read()))\nmath.pi"
	got := done(t, e, api.CreateTask{Request: program, Files: files})
	if got.Outcome != api.OutcomeVerified || len(got.Attempts) != 2 || got.Attempts[1].Result.Stdout != secret+" 2\n" {
		t.Fatalf("%+v", got)
	}
	again := done(t, e, api.CreateTask{Replay: &api.Replay{Task: got.ID, Attempt: 2}})
	if again.Outcome != api.OutcomeVerified || again.Attempts[0].Result.Stdout != secret+" 2\n" {
		t.Errorf("replay: %+v", again)
	}
	for _, task := range []api.Task{got, again} {
		b, err := json.Marshal([]any{task.Create, task.Plan, mem.of(task.ID)[0]})
		if err != nil || bytes.Contains(b, []byte(secret)) || task.Create.Files[0].Content != nil {
			t.Errorf("%v: the record has the content: %s", err, b)
		}
		if f := task.Create.Files; f[0].Path != "data/card.txt" || f[0].Size != 2006+int64(len(secret)) || !strings.HasPrefix(f[0].Head, "first\nxxx") ||
			len(f[0].Head) > api.MaxInputHead || f[1].Head != "" || f[1].Size != 2 {
			t.Errorf("%+v", f)
		}
	}
	if got.Plan == nil || len(got.Plan.Inputs) != 2 {
		t.Errorf("plan: %+v", got.Plan)
	}
	if declined := done(t, e, api.CreateTask{Request: "print the first 5 prime numbers", Files: files}); declined.Outcome != api.OutcomeDeclined ||
		!strings.Contains(declined.Error.Error(), "reads a given file") {
		t.Errorf("a model that would ignore the files: %+v", declined)
	}
}

func TestGivenFilesRefused(t *testing.T) {
	e, _, _ := newEngine(t)
	file := func(path string, n int) api.InputFile {
		return api.InputFile{Path: path, Content: bytes.Repeat([]byte("x"), n)}
	}
	for name, c := range map[string]struct {
		req  api.CreateTask
		says string
	}{
		"outside":           {api.CreateTask{Request: "x", Files: []api.InputFile{file("../a", 1)}}, "element .."},
		"absolute":          {api.CreateTask{Request: "x", Files: []api.InputFile{file("/etc/a", 1)}}, "absolute"},
		"control character": {api.CreateTask{Request: "x", Files: []api.InputFile{file("a\nb", 1)}}, "control character"},
		"twice":             {api.CreateTask{Request: "x", Files: []api.InputFile{file("a", 1), file("a", 1)}}, "conflict"},
		"file as folder":    {api.CreateTask{Request: "x", Files: []api.InputFile{file("a", 1), file("a/b", 1)}}, "conflict"},
		"program's":         {api.CreateTask{Artifact: script("print(1)"), Files: []api.InputFile{file("main.py", 1)}}, "main.py conflict"},
		"too much":          {api.CreateTask{Request: "x", Files: []api.InputFile{file("a", api.MaxInputBytes), file("b", 1)}}, "bytes; the maximum"},
		"too many":          {api.CreateTask{Request: "x", Files: make([]api.InputFile, api.MaxInputFiles+1)}, "maximum is 32"},
		"replay":            {api.CreateTask{Replay: &api.Replay{Task: api.NewTaskID(), Attempt: 1}, Files: []api.InputFile{file("a", 1)}}, "cannot be set"},
	} {
		if _, err := e.Create(t.Context(), c.req); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", name, err, c.says)
		}
	}
}
