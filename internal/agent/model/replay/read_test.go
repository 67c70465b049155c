package replay_test

import (
	"bytes"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/replay"
)

// three is a recording of three exchanges.
func three(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	rec, err := replay.NewRecorder(replay.RecorderConfig{W: &out})
	if err != nil {
		t.Fatal(err)
	}
	m := rec.Wrap(&script{turns: []turn{
		{resp: says("a"), deltas: []model.Delta{{Text: "a"}, {Retry: &model.Retry{Attempt: 1, Of: 2, Err: api.Errorf(api.KindTimeout, "slow")}}}},
		{err: api.Errorf(api.KindDeclined, "no")}, {resp: says("c")}}})
	for _, q := range []string{"1", "2", "3"} {
		m.Generate(t.Context(), ask(q), nil)
	}
	return out.Bytes()
}

func TestALastLineThatIsCutIsLeftOut(t *testing.T) {
	b := three(t)
	whole := bytes.TrimSuffix(b, []byte("\n"))
	last := bytes.LastIndexByte(whole, '\n') + 1
	for cut := last; cut < len(whole); cut++ {
		r, err := replay.Parse(bytes.NewReader(b[:cut]))
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if r.Len() != 2 || (r.Note == "") != (cut == last) {
			t.Fatalf("cut at %d: %d exchanges, note %q", cut, r.Len(), r.Note)
		}
	}
	// Without its line feed alone nothing is missing.
	if r, err := replay.Parse(bytes.NewReader(whole)); err != nil || r.Len() != 3 || r.Note != "" {
		t.Fatalf("%+v %v", r, err)
	}
	r, err := replay.Parse(bytes.NewReader(b[:len(b)-10]))
	if err != nil {
		t.Fatal(err)
	}
	p := replay.NewPlayer(replay.PlayerConfig{Recording: r, Name: "replay:x"})
	if _, err := p.Generate(t.Context(), ask("3"), nil); err == nil || !strings.Contains(err.Error(), "truncated and was ignored") {
		t.Errorf("the note is not told: %v", err)
	}
}

func TestOtherDamageIsRefused(t *testing.T) {
	b := string(three(t))
	all := strings.SplitAfter(b, "\n")
	for name, text := range map[string]string{
		"empty":                  "",
		"no header":              all[1] + all[2],
		"another file":           "hello\nworld\n",
		"cut header":             all[0][:8],
		"newer":                  strings.Replace(b, `"hortusRecording":1`, `"hortusRecording":2`, 1),
		"line cut inside":        all[0] + all[1][:40] + "\n" + all[2],
		"line missing":           all[0] + all[2],
		"line twice":             all[0] + all[1] + all[1],
		"empty line":             all[0] + "\n" + all[1],
		"unknown field":          strings.Replace(b, `"n":1,`, `"n":1,"song":2,`, 1),
		"changed request":        strings.Replace(b, `"text":"2"`, `"text":"5"`, 1),
		"two values":             all[0] + strings.TrimSuffix(all[1], "\n") + "{}\n",
		"no answer":              all[0] + all[2][:strings.Index(all[2], `,"error"`)] + "}\n",
		"unknown kind":           strings.Replace(b, `"kind":"declined"`, `"kind":"tired"`, 1),
		"unknown stop":           strings.Replace(b, `"stop":"end"`, `"stop":"bored"`, 1),
		"negative usage":         strings.Replace(b, `"requests":1`, `"requests":-1`, 1),
		"unknown role":           strings.Replace(b, `"role":"assistant"`, `"role":"king"`, 1),
		"negative redaction":     strings.Replace(b, `"n":1,`, `"n":1,"redacted":-1,`, 1),
		"delta of two":           strings.Replace(b, `"deltas":[{"text":"a"}`, `"deltas":[{"text":"a","call":{}}`, 1),
		"retry without a reason": strings.Replace(b, `"error":{"kind":"timeout","message":"slow"}`, `"error":{}`, 1),
		"negative wait":          strings.Replace(b, `"waitMs":0`, `"waitMs":-1`, 1),
		"long line":              all[0] + strings.Repeat("x", replay.MaxLine+1) + "\n",
		"NUL":                    all[0] + "\x00\n",
	} {
		if text == b {
			t.Errorf("%s: nothing was changed", name)
			continue
		}
		r, err := replay.Parse(strings.NewReader(text))
		if api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

func TestReadingIsBounded(t *testing.T) {
	if _, err := replay.Parse(zeros{}); api.KindOf(err) != api.KindInvalid {
		t.Error(err)
	}
}

// FuzzParse holds that no bytes break the reader, and that what it takes is
// taken again after it was cut at the end of any line.
func FuzzParse(f *testing.F) {
	b := three(f)
	f.Add(b)
	f.Add(b[:len(b)-7])
	f.Add([]byte(`{"hortusRecording":1}` + "\n"))
	f.Add([]byte(`{"hortusRecording":1,"models":{"a":"b"}}` + "\n" + `{"n":1,"model":"m","fingerprint":"x","request":{},"error":{"kind":"internal","message":""}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := replay.Parse(bytes.NewReader(b))
		if err != nil {
			if api.KindOf(err) != api.KindInvalid {
				t.Fatal(err)
			}
			return
		}
		if r.Len() > bytes.Count(b, []byte("\n")) {
			t.Fatalf("%d exchanges of %d lines", r.Len(), bytes.Count(b, []byte("\n")))
		}
		p := replay.NewPlayer(replay.PlayerConfig{Recording: r})
		if _, err := p.Generate(t.Context(), ask("what was never asked"), nil); err == nil {
			t.Fatal("answered from nowhere")
		}
		if i := bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n'); i >= 0 {
			if _, err := replay.Parse(bytes.NewReader(b[:i+1])); err != nil {
				t.Fatalf("one line less: %v", err)
			}
		}
	})
}
