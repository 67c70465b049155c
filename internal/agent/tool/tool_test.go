package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"hortus.dev/api"
)

func TestSpecs(t *testing.T) {
	want := []string{"shell", "job", "view", "create", "str_replace", "insert", "search", "find", "map", "outline", "todo", "finish"}
	all := New(Config{}).All()
	if len(all) != len(want) {
		t.Fatalf("%d tools", len(all))
	}
	total := 0
	for i, x := range all {
		s := x.Spec()
		if s.Name != want[i] {
			t.Errorf("tool %d is %s, want %s", i, s.Name, want[i])
		}
		var schema struct {
			Type       string
			Properties map[string]struct{ Type, Description string }
		}
		if err := json.Unmarshal(s.Input, &schema); err != nil || schema.Type != "object" {
			t.Errorf("%s: %v, %s", s.Name, err, s.Input)
		}
		for name, p := range schema.Properties {
			if p.Type == "" || p.Description == "" {
				t.Errorf("%s: nothing is said of %s", s.Name, name)
			}
		}
		if res, err := x.Call(t.Context(), json.RawMessage(`{"nonsense":1}`)); err != nil || !res.Failed || !strings.Contains(res.Text, `"nonsense" does not exist`) {
			t.Errorf("%s takes an argument that it has not: %+v, %v", s.Name, res, err)
		}
		if again := x.Spec(); string(again.Input) != string(s.Input) {
			t.Errorf("%s: the schema changes", s.Name)
		}
		total += len(s.Description) + len(s.Input)
	}
	// They are in every request.
	if total > 4600 {
		t.Errorf("the tools' words have %d bytes", total)
	}
}

func TestFinish(t *testing.T) {
	f := finish(nil)
	res, err := f.Call(t.Context(), json.RawMessage(`{"summary": " done ", "blocked": null}`))
	if err != nil || res.Finish == nil || res.Finish.Summary != "done" || res.Finish.Blocked != "" {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := f.Call(t.Context(), json.RawMessage(`{"summary": ""}`)); err != nil || !res.Failed || res.Finish != nil {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestTodo(t *testing.T) {
	item := func(text, state string) string { return fmt.Sprintf(`{"text":%q,"state":%q}`, text, state) }
	list := func(all ...string) string { return `{"items":[` + strings.Join(all, ",") + `]}` }
	res, err := todo().Call(t.Context(), json.RawMessage(list(item("Read\n it", "done"), item("Fix it", "active"), item("Test it", "pending"))))
	if want := []api.TodoItem{{Text: "Read it", State: "done"}, {Text: "Fix it", State: "active"}, {Text: "Test it", State: "pending"}}; err != nil || res.Failed || !slices.Equal(res.Todo, want) {
		t.Errorf("%+v, %v", res, err)
	}
	if res.Short != "todo 1 of 3 done: Fix it" {
		t.Errorf("%q", res.Short)
	}
	if res, _ := todo().Call(t.Context(), json.RawMessage(list())); res.Failed || res.Todo == nil {
		t.Errorf("an empty list: %+v", res)
	}
	many := make([]string, 41)
	for i := range many {
		many[i] = item("x", "done")
	}
	if res, _ := todo().Call(t.Context(), json.RawMessage(list(many[:40]...))); res.Failed || len(res.Todo) != 40 {
		t.Errorf("40 items: %+v", res)
	}
	for _, in := range []string{
		list(many...), list(item(strings.Repeat("x", 201), "done")), list(item(" ", "done")), list(item("x", "doing")), list(`{"text":"x"}`),
		list(`{"text":"x","state":"done","more":1}`), list(`7`), `{"items":{}}`, `{"items":null}`, `{}`,
	} {
		if res, err := todo().Call(t.Context(), json.RawMessage(in)); err != nil || !res.Failed || res.Todo != nil {
			t.Errorf("%.80s: %+v, %v", in, res, err)
		}
	}
}

// broken is a sandbox that is gone.
type broken struct{ err error }

func (b broken) Run(context.Context, api.ExecRequest, func(string, []byte) error) (api.Exec, error) {
	return api.Exec{}, b.err
}
func (b broken) Start(context.Context, api.ExecRequest) (Job, error) { return nil, b.err }
func (b broken) ReadFile(context.Context, string, int64) ([]byte, error) {
	return nil, b.err
}
func (b broken) WriteFile(context.Context, string, []byte, bool) error { return b.err }

// TestEnds: what ends the sandbox ends the loop, everything else teaches.
func TestEnds(t *testing.T) {
	inputs := map[string]string{
		"shell": `{"command": "x"}`, "view": `{"path": "x"}`, "create": `{"path": "x", "content": "y"}`,
		"str_replace": `{"path": "x", "old": "a", "new": "b"}`, "insert": `{"path": "x", "line": 0, "text": "b"}`,
		"search": `{"pattern": "x"}`, "find": `{"glob": "x"}`, "map": `{}`, "outline": `{"path": "x.go"}`,
	}
	for _, kind := range api.Kinds {
		ending := kind == api.KindUnavailable || kind == api.KindTimeout || kind == api.KindCanceled ||
			kind == api.KindConflict || kind == api.KindUnauthenticated
		for _, x := range New(Config{Sandbox: broken{api.Errorf(kind, "it is so")}}).All() {
			in, ok := inputs[x.Spec().Name]
			if !ok {
				continue
			}
			res, err := x.Call(t.Context(), json.RawMessage(in))
			if ending != (err != nil) || !ending && !res.Failed {
				t.Errorf("%s, %s: %+v, %v", kind, x.Spec().Name, res, err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range New(Config{Sandbox: broken{api.Errorf(api.KindNotFound, "x")}}).All() {
		if _, err := x.Call(ctx, json.RawMessage(`{}`)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s after the end: %v", x.Spec().Name, err)
		}
	}
}

func TestFilesBounds(t *testing.T) {
	f, err := NewFiles(t.TempDir(), 100, 250)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	put := func(n int) string {
		o, err := f.Create()
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := o.Write([]byte("0123456789")); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		return o.Name()
	}
	read := func(name string) string {
		r, err := f.Open(name)
		if err != nil {
			return err.Error()
		}
		defer r.Close()
		b, _ := io.ReadAll(r)
		return string(b)
	}
	if got := read(put(5)); len(got) != 50 {
		t.Errorf("%q", got)
	}
	if got := read(put(15)); !strings.HasSuffix(got, "9\n[50 more bytes were printed and discarded]\n") || len(got) > 150 {
		t.Errorf("%q", got)
	}
	put(10)
	put(10)
	if got := read("output:1"); got != "output:1 does not exist; saved outputs are output:3 to output:4" {
		t.Errorf("%q", got)
	}
	for _, name := range []string{"output:", "output:0", "output:-1", "output:../x", "output:99999999999999999999", "\x1b"} {
		if got := read(name); !strings.Contains(got, " does not exist; ") || strings.Contains(got, "\x1b") {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// failing is a store whose disk is full.
type failing struct{ OutputStore }

func (failing) Create() (Output, error) { return nil, os.ErrPermission }

func TestCaptureWithoutStore(t *testing.T) {
	for _, store := range []OutputStore{nil, failing{}} {
		c := newCapture(store)
		for range 10_000 {
			io.WriteString(c, "ä line\n")
		}
		if text := c.end(); !strings.Contains(text, "characters truncated; the rest ") || utf8.RuneCountInString(text) > maxText+200 {
			t.Errorf("%.100q...", text)
		}
	}
}

func TestNearIsBounded(t *testing.T) {
	text := strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 50_000)
	old := strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\n", 5_000)
	if got := near(text, old); len(got) > 10_000 || !strings.Contains(got, "most similar") {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
	if got := near(strings.Repeat("x ", 1<<20), "x x x"); len(got) > 10_000 {
		t.Errorf("%d bytes", len(got))
	}
}
