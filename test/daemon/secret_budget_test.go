package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/client"
	"hortus.dev/test/world"
)

// TestSecretBudget has programs in sandboxes use a model until a budget is used up. What they get then
// is the message. A fork has no budget of its own, another sandbox has. test/story has the same after
// the daemon was killed.
func TestSecretBudget(t *testing.T) {
	world.Both(t, func(v *world.Vault) {
		var asked atomic.Int64
		v.Out.HandleFunc("/v1/messages", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Api-Key") != v.Value["model"] {
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
		b := v.At("example.com", "/v1/messages", secrets.Place{Kind: secrets.InHeader, Name: "X-Api-Key"})
		b.Model = secrets.Anthropic
		set := func(budgets ...secrets.Budget) {
			v.T.Helper()
			v.Value["model"] = "canary-of-the-model"
			world.Must(v.Client.Secrets.Set(v.T.Context(), "model", secrets.Set{Value: v.Value["model"], Bindings: []secrets.Binding{b}, Budgets: budgets}))(v.T)
		}
		set(secrets.Budget{Amount: 2500, Unit: secrets.Tokens, Per: secrets.PerTask}, secrets.Budget{Amount: 100, Unit: secrets.Requests, Per: secrets.PerTotal})
		s := v.Sandbox(api.CreateSandbox{}, "model")
		world.Needs(v.T, s, "curl")
		ask := func(s *client.Sandbox) string {
			v.T.Helper()
			out, err := v.Sh(s, `curl -sS -w '[%{http_code}]' -H "X-Api-Key: $MODEL" -d '{"model":"claude-opus-5-5","max_tokens":200}' https://example.com:`+v.Out.Port+`/v1/messages`)
			if err != nil {
				v.T.Errorf("%v: %s", err, out)
			}
			return out
		}
		// 1,000 tokens each: after the third nothing is left.
		for i := range 3 {
			if out := ask(s); !strings.Contains(out, "hello") || !strings.Contains(out, "[200]") {
				v.T.Errorf("request %d: %s", i+1, out)
			}
		}
		refused := func(what string, s *client.Sandbox) {
			v.T.Helper()
			before := asked.Load()
			out := ask(s)
			for _, part := range []string{"[429]", `"rate_limit_error"`, "the budget 2500tokens/task is used up: 3000tokens are counted", "hortus secret set model"} {
				if !strings.Contains(out, part) {
					v.T.Errorf("%s: %q is not in %s", what, part, out)
				}
			}
			if asked.Load() != before {
				v.T.Errorf("%s: the server was asked", what)
			}
		}
		refused("the fourth request", s)
		child := v.Fork(s, "model")
		refused("a fork", child)
		other := v.Sandbox(api.CreateSandbox{}, "model")
		if out := ask(other); !strings.Contains(out, "[200]") {
			v.T.Errorf("another sandbox: %s", out)
		}

		row, err := v.Client.Secrets.Get(v.T.Context(), "model")
		if err != nil || row.Spent == nil || row.Spent.Total.Requests != 4 || row.Spent.Total.Tokens != 4000 || row.Spent.Total.MicroUSD < 4 ||
			len(row.Spent.Tasks) != 2 || row.Spent.Tasks[0].Task != string(s.ID()) || row.Spent.Tasks[0].Tokens != 3000 {
			v.T.Errorf("%+v, %v", row.Spent, err)
		}
		for u, err := range v.Client.Secrets.Uses(v.T.Context(), secrets.UseFilter{Refused: true}) {
			if err != nil || u.Alarm() || u.Budget != "2500tokens/task" {
				v.T.Errorf("%+v, %v", u, err)
			}
		}
		// The control: a larger budget is there for sandboxes that run.
		set(secrets.Budget{Amount: 3500, Unit: secrets.Tokens, Per: secrets.PerTask})
		if out := ask(child); !strings.Contains(out, "[200]") {
			v.T.Errorf("after the budget was raised: %s", out)
		}
	})
}
