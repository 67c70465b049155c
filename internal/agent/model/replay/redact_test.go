package replay_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/replay"
)

func TestSecretsAreTakenOut(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"key sk-ant-api03-abcDEF123456_7890 here", "key [redacted] here"},
		{"Authorization: Bearer abc123def456ghi789", "Authorization: Bearer [redacted]"},
		{`{"Authorization": "Basic dXNlcjpwYXNzd29yZDEyMw=="}`, `{"Authorization": "Basic [redacted]"}`},
		{"api_key=0123456789abcdef0123456789abcdef", "api_key=[redacted]"},
		{"use the API key 9f8e7d6c5b4a39281706 please", "use the API key [redacted] please"},
		{"my token is Zx81Kq0Lm2Np4Rt6Vw8", "my token is [redacted]"},
		{`{"access_token":"abcd1234efgh5678ijkl"}`, `{"access_token":"[redacted]"}`},
		{`{"text":"{\"password\": \"correct9horse8battery\"}"}`, `{"text":"{\"password\": \"[redacted]\"}"}`},
		{"export GITHUB_TOKEN=ghp_abcdefghijklmnop1234567890", "export GITHUB_TOKEN=[redacted]"},
		{"glpat-abcdefgh12345678ABCD", "[redacted]"},
		{"AKIAABCDEFGHIJKLMNOP", "[redacted]"},
		{"https://me:s3cr3t-w0rd@host/path", "https://me:[redacted]@host/path"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0abc.c2lnbmF0dXJlLWhlcmU", "[redacted]"},
		{"-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----\n", "[redacted]\n"},
		{"token: 550e8400-e29b-41d4-a716-446655440000", "token: [redacted]"},
	} {
		var r replay.Redactor
		got, n := r.Redact(c.in)
		if got != c.want || n == 0 {
			t.Errorf("%q gives %q (%d), want %q", c.in, got, n, c.want)
		}
		if again, _ := r.Redact(got); again != got {
			t.Errorf("%q gives %q the second time", got, again)
		}
	}
}

// Programs and prose stay as they are: a replay has to run the same program.
func TestWhatIsNoSecretStays(t *testing.T) {
	for _, s := range []string{
		"token = tokens[position]", "token = base64_encode_v2(values)", "password = generate_password2here(length)",
		"max_tokens: 4096", "def tokenize(text): return text.split()", "the secret of this algorithm is memoisation",
		"password must have at least 12 characters", "Bearer authentication", "basic understanding of sorting",
		"task-0123456789abcdef0123", "https://example.org/a:b@c", "risk-assessment-of-2024-and-more",
		"token_count = 12345678901234567890", "sk-learn", "secret = os.environ['API_TOKEN_NAME']",
		"print('password:', ''.join(random.choice(alphabet) for _ in range(16)))",
	} {
		var r replay.Redactor
		if got, n := r.Redact(s); got != s || n != 0 {
			t.Errorf("%q gives %q (%d)", s, got, n)
		}
	}
}

func TestKnownValuesAreTakenOut(t *testing.T) {
	r := replay.NewRedactor([]string{"hunter2hunter2", `with"quote and more`, "tiny", "hunter2hunter2-longer"})
	quoted, err := json.Marshal(`it is with"quote and more`)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"x hunter2hunter2 y hunter2hunter2": "x [redacted] y [redacted]",
		"hunter2hunter2-longer":             "[redacted]",
		"tiny words stay":                   "tiny words stay",
		string(quoted):                      `"it is [redacted]"`,
	} {
		if got, _ := r.Redact(in); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

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
			text := strings.NewReplacer(known, replay.Mark, looks, replay.Mark)
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

// FuzzRedact holds that a known value never survives, and that marks stay.
func FuzzRedact(f *testing.F) {
	f.Add("token=", "abcd1234efgh5678", " x")
	f.Add("https://u:", "p@ssw0rd!!", "@host")
	f.Add("Bearer ", "0123456789abcdef", "")
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		if len(secret) < 8 || strings.Contains(replay.Mark, secret) || strings.Contains(secret, "redacted") {
			return
		}
		r := replay.NewRedactor([]string{secret})
		got, n := r.Redact(before + secret + after)
		if n == 0 {
			t.Fatalf("nothing was found in %q", before+secret+after)
		}
		// What is left of the value may only have come about around a mark.
		if strings.Contains(strings.ReplaceAll(got, replay.Mark, "\x00"), secret) && !strings.Contains(secret, "\x00") {
			t.Fatalf("%q is still in %q", secret, got)
		}
	})
}
