package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hortus.dev/internal/platform/redact"
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
		var r redact.Redactor
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
		var r redact.Redactor
		if got, n := r.Redact(s); got != s || n != 0 {
			t.Errorf("%q gives %q (%d)", s, got, n)
		}
	}
}

func TestKnownValuesAreTakenOut(t *testing.T) {
	r := redact.New([]string{"hunter2hunter2", `with"quote and more`, "tiny", "hunter2hunter2-longer"})
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

// FuzzRedact holds that a known value never survives, and that marks stay.
func FuzzRedact(f *testing.F) {
	f.Add("token=", "abcd1234efgh5678", " x")
	f.Add("https://u:", "p@ssw0rd!!", "@host")
	f.Add("Bearer ", "0123456789abcdef", "")
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		if len(secret) < 8 || strings.Contains(redact.Mark, secret) || strings.Contains(secret, "redacted") {
			return
		}
		r := redact.New([]string{secret})
		got, n := r.Redact(before + secret + after)
		if n == 0 {
			t.Fatalf("nothing was found in %q", before+secret+after)
		}
		// What is left of the value may only have come about around a mark.
		if strings.Contains(strings.ReplaceAll(got, redact.Mark, "\x00"), secret) && !strings.Contains(secret, "\x00") {
			t.Fatalf("%q is still in %q", secret, got)
		}
	})
}
