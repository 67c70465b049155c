package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/completion"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/server/access"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/test/secrettest"
)

// secretDaemon serves secrets on behalf of the operator.
func secretDaemon(t *testing.T) (*secret.Secrets, app.Connect) {
	t.Helper()
	all, _ := secrettest.Open(t, t.TempDir(), secret.Config{Getenv: func(name string) string { return map[string]string{"CRM_TOKEN": "canary-of-env"}[name] }})
	server := httpapi.New(httpapi.Config{Secrets: access.NewSecrets(all)})
	return all, serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), api.Operator())))
	}))
}

func TestSecretSet(t *testing.T) {
	all, connect := secretDaemon(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("canary-of-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, stdin, args string
		value             string   // "" if it is refused
		shows             []string // parts of the bindings, or of the error
	}{
		{"a value", "canary-of-stdin\n", "--to https://api.example.org/v1/**", "canary-of-stdin", []string{"https://api.example.org/v1/** header=Authorization"}},
		{"without a line break", "canary-of-stdin", "--to api.example.org --header X-Key", "canary-of-stdin", []string{"https://api.example.org header=X-Key"}},
		{"with CRLF", "canary-of-stdin\r\n", "--to api.example.org --query key", "canary-of-stdin", []string{"https://api.example.org query=key"}},
		{"several", "canary-of-stdin", "--to GET,POST~api.example.org --to http://b.example.org:8080 --basic", "canary-of-stdin",
			[]string{"GET,POST https://api.example.org basic", "http://b.example.org:8080 basic"}},
		{"git", "canary-of-stdin", "--git https://git.example.org/o/r.git --fetch --push refs/heads/a/* --push refs/tags/* --force --delete", "canary-of-stdin",
			[]string{"git https://git.example.org/o/r fetch push=refs/heads/a/* push=refs/tags/* force delete"}},
		{"a variable", "", "--to api.example.org --from-env CRM_TOKEN", "canary-of-env", nil},
		{"a file", "", "--to api.example.org --from-file " + file, "canary-of-file", nil},
		{"a command", "", "--to api.example.org --lifetime 1m --from-command -- printf %s canary-of-command", "canary-of-command", nil},
		{"a command with flags", "", "--to api.example.org --from-command -- printf %s --json-canary", "--json-canary", nil},
		{"a signer", "{\n \"accessKeyId\": \"a\", \"secretAccessKey\": \"b\"\n}\n", "--to api.example.org --sign aws-sigv4", `{"accessKeyId":"a","secretAccessKey":"b"}`, nil},
		{"for the daemon", "canary-of-stdin\n", "--daemon", "canary-of-stdin", []string{"it is for the daemon alone"}},
		{"a file for the daemon", "", "--daemon --from-file " + file, "canary-of-file", []string{"it is for the daemon alone"}},

		{"for both", "canary-of-stdin", "--daemon --to api.example.org", "", []string{"leave --daemon out"}},
		{"for the daemon and git", "canary-of-stdin", "--daemon --git git.example.org/o/r --fetch", "", []string{"leave --daemon out"}},
		{"for the daemon, signed", "canary-of-stdin", "--daemon --sign oauth", "", []string{"leave --daemon out"}},
		{"for the daemon, a place", "canary-of-stdin", "--daemon --basic", "", []string{"leave --daemon out"}},
		{"an argument", "canary-of-stdin", "canary-of-argument --to api.example.org", "", []string{"a value is never an argument"}},
		{"no value", "", "--to api.example.org", "", []string{"standard input has no value"}},
		{"a short value", "canary", "--to api.example.org", "", []string{"the minimum is 8"}},
		{"two lines", "canary\ncanary\n", "--to api.example.org", "", []string{"line break"}},
		{"a long value", strings.Repeat("canary", 1<<15), "--to api.example.org", "", []string{"more than 65536 bytes"}},
		{"no binding", "canary-of-stdin", "", "", []string{"--to is missing"}},
		{"two places", "canary-of-stdin", "--to api.example.org --basic --query key", "", []string{"can't be used together"}},
		{"a place alone", "canary-of-stdin", "--git git.example.org/o/r --fetch --basic", "", []string{"are about --to"}},
		{"rights alone", "canary-of-stdin", "--to api.example.org --fetch", "", []string{"are about --git"}},
		{"git alone", "canary-of-stdin", "--git git.example.org/o/r", "", []string{"allows nothing by itself"}},
		{"force alone", "canary-of-stdin", "--git git.example.org/o/r --fetch --force", "", []string{"are about --push"}},
		{"two sources", "", "--to api.example.org --from-env A --from-file " + file, "", []string{"can't be used together"}},
		{"no command", "", "--to api.example.org --from-command", "", []string{"without a command"}},
		{"a lifetime of a value", "canary-of-stdin", "--to api.example.org --lifetime 1m", "", []string{"only a secret from a command"}},
		{"a missing variable", "", "--to api.example.org --from-env NOPE", "", []string{"no environment variable NOPE"}},
		{"a failing command", "", "--to api.example.org --from-command -- sh -c echo~canary;exit~7", "", []string{"exit status 7"}},
		{"a path with a query", "canary-of-stdin", "--to api.example.org?key=canary", "", []string{"a query"}},
		{"an unknown signer", "canary-of-stdin", "--to api.example.org --sign hmac", "", []string{"--sign"}},
	} {
		args := []string{"secret", "set", "token"}
		for _, arg := range strings.Fields(c.args) {
			args = append(args, strings.ReplaceAll(arg, "~", " "))
		}
		code, stdout, stderr := run(t, connect, c.stdin, nil, args...)
		if strings.Contains(stdout+stderr, "canary") && !strings.Contains(c.args, "--json-canary") {
			t.Errorf("%s: it shows a value: %s%s", c.name, stdout, stderr)
		}
		for _, want := range c.shows {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: %s, want %q", c.name, stderr, want)
			}
		}
		if (code == 0) != (c.value != "") || stdout != "" {
			t.Errorf("%s: code %d, %q, %s", c.name, code, stdout, stderr)
		}
		if c.value == "" {
			continue
		}
		if got, err := all.Value(t.Context(), "", "token"); err != nil || got != c.value {
			t.Errorf("%s: the value is %q, %v", c.name, got, err)
		}
		if _, err := all.Remove(t.Context(), "", "token"); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"Token", "uses", "a/b"} {
		if code, _, stderr := run(t, connect, "canary-of-stdin", nil, "secret", "set", name, "--to", "api.example.org"); code != 2 || !strings.Contains(stderr, "not a valid name") {
			t.Errorf("%s: %d, %s", name, code, stderr)
		}
	}
}

func TestSecretLists(t *testing.T) {
	all, connect := secretDaemon(t)
	ok := func(stdin string, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := run(t, connect, stdin, nil, append([]string{"secret"}, args...)...)
		if code != 0 || strings.Contains(stdout+stderr, "canary") {
			t.Errorf("%q: %d, %s%s", args, code, stdout, stderr)
		}
		return stdout, stderr
	}
	if stdout, stderr := ok("", "ls"); stdout != "" || !strings.Contains(stderr, "there is no secret") {
		t.Errorf("%s%s", stdout, stderr)
	}
	ok("canary-of-stdin", "set", "crm", "--to", "https://api.example.org/v1/**")
	if _, stderr := ok("canary-of-stdin", "set", "crm", "--to", "https://api.example.org/v1/**", "--to", "b.example.org"); !strings.Contains(stderr, "crm is replaced") {
		t.Error(stderr)
	}
	ok("canary-of-stdin", "set", "model-key", "--daemon")
	for _, args := range [][]string{{"ls"}, {"show", "model-key"}} {
		if out, _ := ok("", args...); !strings.Contains(out, "the daemon alone") {
			t.Errorf("%q: %s", args, out)
		}
	}
	ok("", "rm", "model-key")
	all.Record(t.Context(), secrets.Use{Secret: "crm", Sandbox: "i1", Scheme: "https", Host: "api.example.org", Port: 443, Method: "GET", Path: "/v1/x", Status: 200, Binding: 1, Received: 2048, Commands: []string{"curl \x1b[2J"}})
	all.Record(t.Context(), secrets.Use{Secret: "crm", Sandbox: "i1", Scheme: "http", Host: "evil.example.com", Port: 81, Method: "POST", Path: "/", Refused: "no binding of the secret"})
	all.Record(t.Context(), secrets.Use{Sandbox: "i2", Scheme: "https", Host: "other.example.com", Port: 443, Method: "GET", Path: "/", Refused: "none of this sandbox"})
	if out, _ := ok("", "ls"); !strings.Contains(out, "NAME") || !strings.Contains(out, "https://api.example.org/v1/** header=Authorization (and 1 more)") || !strings.Contains(out, "  1  ") {
		t.Error(out)
	}
	if out, _ := ok("", "show", "crm"); !strings.Contains(out, "https://b.example.org header=Authorization") || !strings.Contains(out, "stored") || !strings.Contains(out, "last use") {
		t.Error(out)
	}
	out, _ := ok("", "uses")
	for _, want := range []string{"sent", "refused", "GET https://api.example.org/v1/x", "POST http://evil.example.com:81/", "no binding of the secret", "binding 1, status 200", "curl", "  -       i2"} {
		if !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
			t.Errorf("%s, want %q", out, want)
		}
	}
	if out, _ := ok("", "uses", "crm", "--refused", "--json"); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"refused":"no binding of the secret"`) {
		t.Error(out)
	}
	if out, _ := ok("", "uses", "--limit", "1", "--since", "1h", "--json"); strings.Count(out, "\n") != 1 {
		t.Error(out)
	}
	for what, args := range map[string][]string{"ls": {"ls", "--json"}, "show": {"show", "crm", "--json"}} {
		out, _ := ok("", args...)
		if !json.Valid([]byte(out)) || !strings.Contains(out, `"name": "crm"`) {
			t.Errorf("%s: %s", what, out)
		}
	}
	if _, stdout, _ := run(t, connect, "", nil, completion.Name, "--", "hortus", "secret", "show", "c"); !strings.Contains(stdout, "crm") {
		t.Errorf("it is completed with %q", stdout)
	}
	if out, _ := ok("", "rm", "crm", "--json"); !strings.Contains(out, `"name": "crm"`) {
		t.Error(out)
	}
	for _, args := range [][]string{{"show", "crm"}, {"rm", "crm"}, {"uses", "other"}} {
		if code, _, stderr := run(t, connect, "", nil, append([]string{"secret"}, args...)...); code != 1 || !strings.Contains(stderr, "hortus secret ls") {
			t.Errorf("%q: %d, %s", args, code, stderr)
		}
	}
	// The uses of a secret outlive it.
	if out, _ := ok("", "uses", "crm"); strings.Count(out, "\n") != 3 {
		t.Error(out)
	}
}
