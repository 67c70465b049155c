package loop_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/replay"
)

func read(text string) (all []loop.Entry, cut bool, err error) {
	cut, err = loop.ReadTranscript(strings.NewReader(text), func(e loop.Entry) error { all = append(all, e); return nil })
	return all, cut, err
}

// What a model and its tools write reaches no terminal as it is, in the transcript
// or in an event, and comes back whole.
func TestTranscriptIsTame(t *testing.T) {
	const wild = "red \x1b[31m, title \x1b]0;x\x07, C1 \u009b2J, order \u202e, end\x00."
	m := &circle{calls: []string{`view {"path":"wild"}`, `finish {"summary":"ok"}`}}
	w := newWork(m, func(_ *loop.Config, b *bench) { b.files["wild"] = wild })
	w.Run(t.Context(), wild)
	for _, r := range strings.ReplaceAll(w.script.String(), "\n", "") {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			t.Fatalf("%U is in the transcript", r)
		}
	}
	all := w.entries(t)
	if all[1].Text != wild || all[3].Text != wild {
		t.Errorf("%+v", all)
	}
	for _, e := range of[api.ToolEvent](w.facts) {
		if strings.ContainsFunc(e.Input+e.Output, unicode.IsControl) || strings.ContainsRune(e.Output, '\u202e') {
			t.Errorf("%+v", e)
		}
	}
}

// Long texts are cut to their bound, and short forms to a line.
func TestTranscriptBounds(t *testing.T) {
	huge := strings.Repeat("\x01", 2<<20)
	m := &circle{calls: []string{`view {"path":"huge"}`, `shell {"command":"` + strings.Repeat("é", 200_000) + `"}`, `shell {"command":"` + strings.Repeat("é", 300_000) + `"}`, `finish {"summary":"ok"}`}}
	w := newWork(m, func(_ *loop.Config, b *bench) { b.files["huge"] = huge })
	if rep := w.Run(t.Context(), huge); rep.Stop != api.StopFinished || len(w.bench.calls) != 2 {
		t.Fatalf("%s %d", rep.Stop, len(w.bench.calls))
	}
	for line := range strings.Lines(w.script.String()) {
		if len(line) > loop.MaxTranscriptLine {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
	for _, e := range w.entries(t) {
		if len(e.Text) > loop.MaxTranscriptText {
			t.Errorf("an entry has %d bytes", len(e.Text))
		}
	}
	for _, e := range of[api.ToolEvent](w.facts) {
		if len(e.Input) > 256 || len(e.Output) > 256 || strings.Contains(e.Output, "\n") {
			t.Errorf("%d, %d bytes", len(e.Input), len(e.Output))
		}
	}
	if !strings.Contains(w.History()[6].Text, "exceeds the maximum of") {
		t.Errorf("%.200q", w.History()[6].Text)
	}
}

// A writer that fails does not end the work, and is told.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestTranscriptFails(t *testing.T) {
	for left := range 4 {
		w := newWork(&circle{calls: []string{`finish {"summary":"ok"}`}}, func(c *loop.Config, _ *bench) { c.Transcript = &broken{left} })
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished || rep.Transcript == nil || !strings.Contains(rep.Transcript.Error(), "disk full") {
			t.Errorf("%+v", rep)
		}
	}
	w := newWork(&circle{calls: []string{`finish {"summary":"ok"}`}}, func(c *loop.Config, _ *bench) { c.Transcript = nil })
	if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished || rep.Transcript != nil {
		t.Errorf("%+v", rep)
	}
}

// Nothing of the environment is in a transcript by itself.
func TestTranscriptHasNoEnvironment(t *testing.T) {
	t.Setenv("HORTUS_TEST_SECRET", "value-of-the-environment")
	w := newWork(&circle{calls: []string{`view {"path":"a.txt"}`, `finish {"summary":"ok"}`}}, nil)
	w.Run(t.Context(), "Go.")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	home, _ := os.UserHomeDir()
	for _, secret := range []string{"value-of-the-environment", "HORTUS_TEST", os.Getenv("PATH"), host, home} {
		if len(secret) > 3 && strings.Contains(w.script.String(), secret) {
			t.Errorf("%q is in it", secret)
		}
	}
}

func TestReadTranscript(t *testing.T) {
	const one = `{"n":1,"at":"2026-05-01T12:00:00Z","kind":"user","round":1,"step":0,"text":"a"}` + "\n"
	two := strings.Replace(one, `"n":1`, `"n":2`, 1)
	for _, tt := range []struct {
		name, text string
		n          int
		cut        bool
		says       string
	}{
		{"empty", "", 0, false, ""},
		{"two", one + two, 2, false, ""},
		{"no newline", one + strings.TrimSpace(two), 2, false, ""},
		{"cut", one + two[:20], 1, true, ""},
		{"damaged in the middle", two[:20] + "\n" + two, 0, false, "line 1 of the transcript is damaged"},
		{"missing", two, 0, false, "has the wrong number 2"},
		{"twice", one + one, 1, false, "line 2 of the transcript has the wrong number 1"},
		{"unknown kind", strings.Replace(one, "user", "evil", 1), 0, false, "unknown kind"},
		{"unknown field", strings.Replace(one, `"step"`, `"evil"`, 1), 0, false, "unknown field"},
		{"below zero", strings.Replace(one, `"step":0`, `"step":-1`, 1), 0, false, "out of range"},
		{"more behind", strings.TrimSpace(one) + "{}\n", 0, false, "data follows"},
		{"too long", strings.Replace(one, `"a"`, `"`+strings.Repeat("a", 300<<10)+`"`, 1), 0, false, "too long"},
		{"long line", strings.Repeat("x", 3<<20), 0, false, "more than"},
	} {
		all, cut, err := read(tt.text)
		if len(all) != tt.n || cut != tt.cut || (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || api.KindOf(err) != api.KindInvalid) {
			t.Errorf("%s: %d entries, cut %v, %v", tt.name, len(all), cut, err)
		}
	}
	enough := errors.New("enough")
	if _, err := loop.ReadTranscript(strings.NewReader(one+two), func(loop.Entry) error { return enough }); err != enough {
		t.Errorf("%v", err)
	}
}

func FuzzReadTranscript(f *testing.F) {
	w := newWork(&circle{calls: []string{`view {"path":"a.txt"}`, `finish {"summary":"ok"}`}}, nil)
	w.Run(f.Context(), "Go.")
	f.Add(w.script.Bytes())
	f.Add(w.script.Bytes()[:w.script.Len()-20])
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		_, err := loop.ReadTranscript(bytes.NewReader(text), func(e loop.Entry) error {
			if n++; e.N != n || len(e.Text) > len(text)*3 || e.Step < 0 {
				t.Errorf("entry %d: %+v", n, e)
			}
			return nil
		})
		if err != nil && api.KindOf(err) != api.KindInvalid {
			t.Errorf("%v", err)
		}
	})
}

// fuzzed answers with what a fuzzer wrote: a line is an answer, a tab divides its
// text and its calls, each of a name and an input.
type fuzzed struct {
	t     *testing.T
	lines []string
	n     int
}

func (*fuzzed) Name() string { return "fuzzed" }

func (f *fuzzed) next(req model.Request) (resp model.Response, err error) {
	valid(f.t, req.Messages)
	if f.n == len(f.lines) {
		return resp, api.Errorf(api.KindUnavailable, "no more")
	}
	parts := strings.Split(f.lines[f.n], "\t")
	f.n++
	resp.Message = model.Message{Role: model.RoleAssistant, Text: parts[0]}
	for i, p := range parts[1:] {
		name, input, _ := strings.Cut(p, " ")
		resp.Message.Calls = append(resp.Message.Calls, model.Call{ID: fmt.Sprint(i % 2), Name: name, Input: json.RawMessage(input)})
	}
	switch {
	case strings.HasPrefix(parts[0], "length"):
		resp.Stop = model.StopLength
	case strings.HasPrefix(parts[0], "invalid"):
		return resp, api.Errorf(api.KindInvalid, "too long")
	}
	resp.Usage = api.Usage{Requests: 1, InputTokens: int64(len(parts[0])) * 7}
	return resp, nil
}

// Whatever a model answers, a Run ends with a reason, its history can be sent, and
// its transcript can be read.
func FuzzAnswers(f *testing.F) {
	f.Add("hello\tview {\"path\":\"a.txt\"}\tview {\nlength\tshell {}\n\n\tfinish {\"summary\":\"x\"}", int64(3000))
	f.Add("a\tshell {\"command\":\"x\"}\na\tshell {\"command\":\"x\"}\na\tshell {\"command\":\"x\"}\na\tshell {\"command\":\"x\"}\na\tshell {\"command\":\"x\"}\n", int64(100))
	f.Add(strings.Repeat("invalid\n", 5)+strings.Repeat("a\tview [[[[\n\t \n", 9), int64(1))
	f.Fuzz(func(t *testing.T, text string, window int64) {
		m := &fuzzed{t: t, lines: strings.Split(text, "\n")}
		w := newWork(modelFunc{m.next, "fuzzed"}, func(c *loop.Config, _ *bench) { c.Window, c.Budget.Steps = window, 50 })
		for _, say := range []string{"Go.", "Go on."} {
			if rep := w.Run(t.Context(), say); rep.Stop == "" || rep.Transcript != nil || (rep.Err != nil) != (rep.Stop == api.StopModel) {
				t.Errorf("%+v", rep)
			}
			w.entries(t)
		}
	})
}

// A recorded run is repeated byte for byte, its failed tries, its malformed calls
// and its summary included.
func TestReplay(t *testing.T) {
	each(t, `
-- overloaded --
status: 529

busy
-- one --
say: I look.
call: view
also: view {"path": 7}

{"path": "a.txt"}
-- half --
last: must be a string
call: shell

{"command":
-- run --
call: shell

{"command": "make"}
-- end --
last: ran make
call: finish

{"summary": "ok"}
-- again --
call: finish

{"summary": "again"}
`, func(t *testing.T, m model.Model, _ *requests) {
		var tape bytes.Buffer
		rec, err := replay.NewRecorder(replay.RecorderConfig{W: &tape})
		if err != nil {
			t.Fatal(err)
		}
		brief := loop.Brief{Request: "Go.", Gate: "make", Mark: "mark-of-the-task", Guidance: []api.Document{{Name: "AGENTS.md", Text: "Be kind."}}}
		run := func(m model.Model) *work {
			w := newWork(named{m, "m"}, nil)
			for _, text := range []string{brief.Message(), loop.GateFailed(api.Gate{Command: "make", Output: "no\n"}, 1, 2, true)} {
				if rep := w.Run(t.Context(), text); rep.Stop != api.StopFinished {
					t.Fatalf("%+v", rep)
				}
			}
			return w
		}
		first := run(rec.Wrap(patient(m)))
		tape2, err := replay.Parse(bytes.NewReader(tape.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		second := run(replay.NewPlayer(replay.PlayerConfig{Recording: tape2, Name: "m"}))
		if !bytes.Equal(first.script.Bytes(), second.script.Bytes()) {
			t.Errorf("recorded\n%s\nreplayed\n%s", first.script.Bytes(), second.script.Bytes())
		}
		if a, b := of[api.ModelRetryEvent](first.facts), of[api.ModelRetryEvent](second.facts); len(a) != 2 || len(a) != len(b) {
			t.Errorf("%+v, %+v", a, b)
		}
		first.entries(t)
	})
}
