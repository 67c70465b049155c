package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/cli/completion"
)

func TestSecretBudgets(t *testing.T) {
	all, connect := secretDaemon(t)
	ok := func(args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := run(t, connect, "canary-of-stdin", nil, append([]string{"secret"}, args...)...)
		if code != 0 {
			t.Fatalf("%q: exit code %d, %s", args, code, stderr)
		}
		return stdout, stderr
	}
	contains := func(what, text string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(text, p) {
				t.Errorf("%s: %q is not in:\n%s", what, p, text)
			}
		}
	}
	_, stderr := ok("set", "anthropic", "--preset", "anthropic", "--budget", "5usd", "--budget", "2000tokens/day", "--budget", "500requests/total")
	contains("set", stderr, "GET,POST https://api.anthropic.com/v1/messages|", "header=X-Api-Key model=anthropic", "its budgets: 5usd/task 2000tokens/day 500requests/total",
		"hortus run --secret ANTHROPIC_API_KEY=anthropic ...")
	settle, err := all.Reserve(t.Context(), secrets.Spender{Secret: "anthropic", Task: "t-most"}, secrets.Amounts{Requests: 1})
	if err != nil {
		t.Fatal(err)
	}
	settle(secrets.Amounts{Requests: 1, Tokens: 2500, MicroUSD: 1_250_000})
	out, _ := ok("show", "anthropic")
	contains("show", out, "5usd/task: 1.25usd used, 3.75usd left by t-most", "2000tokens/day: used up: 2500tokens", "500requests/total: 1requests used, 499requests left",
		"1 requests, 2500 tokens, 1.25usd", "t-most: 1 requests")
	out, _ = ok("show", "anthropic", "--json")
	var row secrets.Secret
	if err := json.Unmarshal([]byte(out), &row); err != nil || row.Spent == nil || row.Spent.Total.Tokens != 2500 || len(row.Budgets) != 3 || row.Budgets[0].Amount != 5 {
		t.Errorf("%s, %v", out, err)
	}
	ok("set", "crm", "--to", "api.example.org")
	out, _ = ok("ls")
	contains("ls", out, "BUDGETS", "5usd/task 2000tokens/day")
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "crm") && strings.Contains(line, "usd") {
			t.Errorf("a secret without budgets: %s", line)
		}
	}
	all.Record(t.Context(), secrets.Use{Secret: "anthropic", Sandbox: "i1", Host: "api.anthropic.com", Refused: "the budget 5usd/task is used up", Budget: "5usd/task"})
	all.Record(t.Context(), secrets.Use{Secret: "anthropic", Sandbox: "i1", Host: "api.anthropic.com", Status: 200, Usage: &secrets.Usage{Model: "m", InputTokens: 7, OutputTokens: 8, MicroUSD: 9, Estimated: true, PricedAs: "n"}})
	out, _ = ok("uses", "anthropic")
	contains("uses", out, "budget", "the budget 5usd/task is used up", "m: 7 tokens in, 8 out, 0.000009usd")
	out, _ = ok("uses", "anthropic", "--refused", "--json")
	contains("uses --refused", out, `"budget":"5usd/task"`)

	// Set anew it keeps what was used; with --reset-budget it does not.
	ok("set", "anthropic", "--preset", "anthropic", "--budget", "3000tokens/total")
	out, _ = ok("show", "anthropic")
	contains("set anew", out, "3000tokens/total: 2500tokens used, 500tokens left")
	ok("set", "anthropic", "--preset", "anthropic", "--budget", "3000tokens/total", "--reset-budget")
	out, _ = ok("show", "anthropic")
	contains("reset", out, "3000tokens/total: 0tokens used")

	for _, c := range []struct{ name, args, want string }{
		{"openai", "--preset openai", "https://api.openai.com/v1/chat/completions|"},
		{"openai-api-key", "--preset openai --base-url http://llm.example.org:8080/x/", "http://llm.example.org:8080/x/chat/completions|"},
		{"gemini", "--preset gemini --budget 1usd", "query=key model=gemini"},
		{"own", "--budget 9tokens --to https://llm.example.org/**{model=openai", "https://llm.example.org/** header=Authorization model=openai"},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "{", " ")
		}
		_, stderr := ok(append([]string{"set", c.name}, args...)...)
		contains(c.args, stderr, c.want)
		if c.name == "openai-api-key" {
			contains("a name that is the variable", stderr, "--secret openai-api-key ...")
		}
	}
	for args, want := range map[string]string{
		"--preset mistral":                                         "preset",
		"--base-url https://llm.example.org":                       "--preset, which is missing",
		"--preset openai --to api.example.org":                     "cannot be given with it",
		"--preset openai --header X":                               "cannot be given with it",
		"--preset openai --daemon":                                 "cannot be given with it",
		"--preset openai --sign oauth":                             "--sign",
		"--preset openai --base-url llm":                           "not the address of a server",
		"--preset openai --base-url https://a:b@c":                 "not the address of a server",
		"--preset openai --base-url https://a/**":                  "not the address of a server",
		"--preset openai --base-url http://127.0.0.1:1":            "is an address",
		"--preset openai --budget 5eur":                            "is not a budget",
		"--preset openai --budget 5usd --budget 6usd":              "two budgets",
		"--to api.example.org --budget 5usd":                       "does not say which API",
		"--to api.example.org --budget 5requests --budget 1tokens": "does not say which API",
		"--daemon --budget 5requests":                              "daemon alone",
	} {
		code, _, stderr := run(t, connect, "canary-of-stdin", nil, append([]string{"secret", "set", "bad"}, strings.Fields(args)...)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
	if _, err := all.Lookup(t.Context(), "", "bad"); err == nil {
		t.Error("a secret was set")
	}
	for _, c := range []struct{ before, want string }{{"--preset", "gemini"}, {"--bud", "--budget"}, {"--res", "--reset-budget"}} {
		args := []string{"hortus", "secret", "set", "x", c.before}
		if c.before == "--preset" {
			args = append(args, "")
		}
		if _, stdout, _ := run(t, connect, "", nil, append([]string{completion.Name, "--"}, args...)...); !strings.Contains(stdout, c.want) {
			t.Errorf("completion of %q: %s", c.before, stdout)
		}
	}
}
