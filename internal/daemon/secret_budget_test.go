package daemon

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/client"
)

// TestSecretBudget has programs in sandboxes use a model until a budget is used up. What they get then
// is the message. A fork has no budget of its own, another sandbox has. test/story has the same after
// the daemon was killed.
func TestSecretBudget(t *testing.T) {
	both(t, func(v *vault) {
		var asked atomic.Int64
		v.routes.HandleFunc("/v1/messages", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Api-Key") != v.value["model"] {
				http.Error(w, "no key", http.StatusUnauthorized)
				return
			}
			asked.Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			for _, e := range []string{
				`{"type":"message_start","message":{"model":"claude-opus-5-5","usage":{"input_tokens":900,"output_tokens":1}}}`,
				`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hello"}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":100}}`, `{"type":"message_stop"}`,
			} {
				fmt.Fprintf(w, "data: %s\n\n", e)
			}
		})
		b := v.at("example.com", "/v1/messages", secrets.Place{Kind: secrets.InHeader, Name: "X-Api-Key"})
		b.Model = secrets.Anthropic
		set := func(budgets ...secrets.Budget) {
			v.t.Helper()
			v.value["model"] = "canary-of-the-model"
			if _, err := v.c.Secrets.Set(v.t.Context(), "model", secrets.Set{Value: v.value["model"], Bindings: []secrets.Binding{b}, Budgets: budgets}); err != nil {
				v.t.Fatal(err)
			}
		}
		set(secrets.Budget{Amount: 2500, Unit: secrets.Tokens, Per: secrets.PerTask}, secrets.Budget{Amount: 100, Unit: secrets.Requests, Per: secrets.PerTotal})
		s := v.box(api.CreateSandbox{}, "model")
		needs(v.t, s, "curl")
		ask := func(s *client.Sandbox) string {
			v.t.Helper()
			out, err := sh(v.t, s, `curl -sS -w '[%{http_code}]' -H "X-Api-Key: $MODEL" -d '{"model":"claude-opus-5-5","max_tokens":200}' https://example.com:`+v.port+`/v1/messages`)
			if err != nil {
				v.t.Errorf("%v: %s", err, out)
			}
			return out
		}
		// 1,000 tokens each: after the third nothing is left.
		for i := range 3 {
			if out := ask(s); !strings.Contains(out, "hello") || !strings.Contains(out, "[200]") {
				v.t.Errorf("request %d: %s", i+1, out)
			}
		}
		refused := func(what string, s *client.Sandbox) {
			v.t.Helper()
			before := asked.Load()
			out := ask(s)
			for _, part := range []string{"[429]", `"rate_limit_error"`, "the budget 2500tokens/task is used up: 3000tokens are counted", "hortus secret set model"} {
				if !strings.Contains(out, part) {
					v.t.Errorf("%s: %q is not in %s", what, part, out)
				}
			}
			if asked.Load() != before {
				v.t.Errorf("%s: the server was asked", what)
			}
		}
		refused("the fourth request", s)
		forked, err := s.Fork(v.t.Context(), api.ForkSandbox{Secrets: []string{"model"}})
		if err != nil {
			v.t.Fatal(err)
		}
		child, err := v.c.Sandboxes.Get(v.t.Context(), string(forked.Children[0].Sandbox.ID))
		if err != nil {
			v.t.Fatal(err)
		}
		v.t.Cleanup(func() {
			_, _ = child.Kill(context.Background())
			child.Close()
		})
		refused("a fork", child)
		other := v.box(api.CreateSandbox{}, "model")
		if out := ask(other); !strings.Contains(out, "[200]") {
			v.t.Errorf("another sandbox: %s", out)
		}

		row, err := v.c.Secrets.Get(v.t.Context(), "model")
		if err != nil || row.Spent == nil || row.Spent.Total.Requests != 4 || row.Spent.Total.Tokens != 4000 || row.Spent.Total.MicroUSD < 4 ||
			len(row.Spent.Tasks) != 2 || row.Spent.Tasks[0].Task != string(s.ID()) || row.Spent.Tasks[0].Tokens != 3000 {
			v.t.Errorf("%+v, %v", row.Spent, err)
		}
		for u, err := range v.c.Secrets.Uses(v.t.Context(), secrets.UseFilter{Refused: true}) {
			if err != nil || u.Alarm() || u.Budget != "2500tokens/task" {
				v.t.Errorf("%+v, %v", u, err)
			}
		}
		// The control: a larger budget is there for sandboxes that run.
		set(secrets.Budget{Amount: 3500, Unit: secrets.Tokens, Per: secrets.PerTask})
		if out := ask(child); !strings.Contains(out, "[200]") {
			v.t.Errorf("after the budget was raised: %s", out)
		}
	})
}
