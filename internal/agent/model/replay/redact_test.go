package replay_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/replay"
	"hortus.dev/internal/platform/redact"
)

// No byte of a secret is in the recording, wherever it stood, and the replay
// finds its answer all the same, with the key there and without.
func TestNoSecretIsRecorded(t *testing.T) {
	const known, looks = "plain words only here", "sk-live-0123456789abcdefghij"
	req := func() model.Request {
		r := ask(`{"sentence":"use ` + known + ` and ` + looks + `"}`)
		r.System += known
		r.Tools[0].Description = looks
		r.Messages = append(r.Messages, model.Message{Role: model.RoleAssistant, Calls: []model.Call{{ID: "c", Name: "look", Input: json.RawMessage(`{"key":"` + looks + `"}`)}}},
			model.Message{Role: model.RoleTool, CallID: "c", Text: known})
		return r
	}
	turns := []turn{
		{
			// A secret that comes in pieces is whole in the text.
			deltas: []model.Delta{{Text: "it is sk-live-0123"}, {Text: "456789abcdefghij ok"}, {Text: " plain wor"}, {Text: "ds only here"},
				{Call: &model.Call{ID: "d", Name: "look", Input: json.RawMessage(`{"key":"sk-live-0123`)}}, {Call: &model.Call{ID: "d", Input: json.RawMessage(`456789abcdefghij"}`)}},
				{Retry: &model.Retry{Attempt: 1, Of: 2, Err: api.Errorf(api.KindDenied, "key %s", looks).WithHint("not %s", known)}}},
			resp: says("it is " + looks + " and " + known),
		},
		{err: api.Errorf(api.KindDenied, "bad key %s", looks).WithHint("not %s", known)},
	}
	b := record(t, &script{turns: turns}, []string{known}, req(), req())
	for _, s := range []string{known, looks, "0123456789abcdefghij", "only here"} {
		if bytes.Contains(b, []byte(s)) {
			t.Errorf("%q is in the recording:\n%s", s, b)
		}
	}
	for _, secrets := range [][]string{{known}, nil} {
		p := play(t, b, secrets...)
		r := req()
		if secrets == nil {
			// Anyone who was handed the recording has the marks alone.
			r = model.Request{}
			text := strings.NewReplacer(known, redact.Mark, looks, redact.Mark)
			src := req()
			raw, err := json.Marshal(src)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(text.Replace(string(raw))), &r); err != nil {
				t.Fatal(err)
			}
		}
		got, err := p.Generate(t.Context(), r, nil)
		if err != nil || got.Message.Text != "it is [redacted] and [redacted]" {
			t.Errorf("%+v %v", got, err)
		}
		if _, err := p.Generate(t.Context(), r, nil); api.KindOf(err) != api.KindDenied || err.Error() != "bad key [redacted]" {
			t.Error(err)
		}
	}
	rec, err := replay.Parse(bytes.NewReader(b))
	if err != nil || rec.Redacted() < 10 {
		t.Errorf("%d places, %v", rec.Redacted(), err)
	}
}

// A value without quotes leaves JSON behind all the same.
func TestInputOfACallStaysJSON(t *testing.T) {
	m := &script{turns: []turn{{resp: model.Response{Message: model.Message{Role: model.RoleAssistant, Calls: []model.Call{{Name: "look", Input: json.RawMessage(`{"pin":12345678}`)}}}, Stop: model.StopTools}}}}
	got, err := play(t, record(t, m, []string{"12345678"}, ask("q"))).Generate(t.Context(), ask("q"), nil)
	if err != nil || !json.Valid(got.Message.Calls[0].Input) || strings.Contains(string(got.Message.Calls[0].Input), "1234") {
		t.Errorf("%s %v", got.Message.Calls[0].Input, err)
	}
}
