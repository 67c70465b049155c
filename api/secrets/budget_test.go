package secrets_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

func TestParseBudget(t *testing.T) {
	for text, want := range map[string]struct {
		canonical string
		limit     int64
	}{
		"5usd":                           {"5usd/task", 5_000_000},
		"0.25usd/day":                    {"0.25usd/day", 250_000},
		"0.000001usd/total":              {"0.000001usd/total", 1},
		"1000000usd":                     {"1000000usd/task", 1_000_000_000_000},
		"12.10usd":                       {"12.1usd/task", 12_100_000},
		"2000000tokens/day":              {"2000000tokens/day", 2_000_000},
		" 500 requests / total ":         {"500requests/total", 500},
		"1requests/task":                 {"1requests/task", 1},
		"1000000000000tokens":            {"1000000000000tokens/task", 1_000_000_000_000},
		"":                               {},
		"usd":                            {},
		"5":                              {},
		"5eur":                           {},
		"5 usd/week":                     {},
		"5usd/":                          {},
		"0usd":                           {},
		"0.0000001usd":                   {},
		"5.0000005usd":                   {},
		"-5usd":                          {},
		"1e9tokens":                      {},
		"1.5requests":                    {},
		"1.5.5usd":                       {},
		".5usd":                          {},
		"5.usd":                          {},
		"1000001usd":                     {},
		"1000000001requests":             {},
		"1000000000001tokens":            {},
		"5usd/task/day":                  {},
		"NaNusd":                         {},
		"5USD":                           {},
		strings.Repeat("9", 400) + "usd": {},
	} {
		b, err := secrets.ParseBudget(text)
		if want.limit == 0 {
			if api.KindOf(err) != api.KindInvalid || api.HintOf(err) == "" {
				t.Errorf("%q: %v, %v", text, b, err)
			}
			continue
		}
		if err != nil || b.String() != want.canonical || b.Limit() != want.limit {
			t.Errorf("%q: %v, %d, %v; want %v", text, b, b.Limit(), err, want)
		}
		if again, err := secrets.ParseBudget(b.String()); err != nil || again != b {
			t.Errorf("%q is read as %v, %v", b, again, err)
		}
	}
}

func FuzzParseBudget(f *testing.F) {
	for _, s := range []string{"5usd", "2000000tokens/day", "500requests/total", "0.1usd/task", "9/9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := secrets.ParseBudget(text)
		if err != nil {
			return
		}
		again, err := secrets.ParseBudget(b.String())
		if err != nil || again.Limit() != b.Limit() || again.Unit != b.Unit || again.Per != b.Per || b.Limit() < 1 {
			t.Errorf("%q is %v, which is read as %v, %v", text, b, again, err)
		}
	})
}

func TestBudgetJSON(t *testing.T) {
	b, err := secrets.ParseBudget("0.3usd/day")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(b)
	if err != nil || string(text) != `{"amount":0.3,"unit":"usd","per":"day"}` {
		t.Errorf("%s, %v", text, err)
	}
	var back secrets.Budget
	if err := json.Unmarshal(text, &back); err != nil || back != b {
		t.Errorf("%v, %v", back, err)
	}
}

// TestCheckBudgets: each refusal is one change of a request that is valid.
func TestCheckBudgets(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*secrets.Set)
		want   string
	}{
		"valid":                    {func(*secrets.Set) {}, ""},
		"no default":               {func(s *secrets.Set) { s.Budgets[0].Per = secrets.PerDay }, ""},
		"none":                     {func(s *secrets.Set) { s.Budgets = nil }, ""},
		"none, and no model":       {func(s *secrets.Set) { s.Budgets, s.Bindings[0].Model = nil, "" }, ""},
		"requests without a model": {func(s *secrets.Set) { s.Budgets[0].Unit, s.Bindings[0].Model = secrets.Requests, "" }, ""},
		"tokens without a model":   {func(s *secrets.Set) { s.Bindings[0].Model = "" }, "binding 1 does not say which API"},
		"another model":            {func(s *secrets.Set) { s.Bindings[0].Model = "llama" }, "model"},
		"a repository as a model":  {func(s *secrets.Set) { s.Bindings[0].Git = &secrets.Git{Repository: "/o/r", Fetch: true} }, "no model"},
		"for the daemon alone":     {func(s *secrets.Set) { s.Bindings = nil }, "daemon alone"},
		"for rules of headers":     {func(s *secrets.Set) { s.Bindings, s.ForHeaders = nil, true }, "rules of headers"},
		"the most":                 {budgets(6), ""},
		"too many":                 {budgets(secrets.MaxBudgets + 1), "the maximum is 8"},
		"twice": {func(s *secrets.Set) {
			s.Budgets = append(s.Budgets, secrets.Budget{Amount: 9, Unit: secrets.Tokens, Per: secrets.PerTask})
		}, "two budgets"},
		"not a number":           {func(s *secrets.Set) { s.Budgets[0].Amount = math.NaN() }, "budget 1"},
		"infinite":               {func(s *secrets.Set) { s.Budgets[0].Amount = math.Inf(1) }, "budget 1"},
		"a fraction of a token":  {func(s *secrets.Set) { s.Budgets[0].Amount = 1.5 }, "whole"},
		"another unit":           {func(s *secrets.Set) { s.Budgets[0].Unit = "eur" }, "unit"},
		"another period":         {func(s *secrets.Set) { s.Budgets[0].Per = "week" }, "week"},
		"more than six decimals": {func(s *secrets.Set) { s.Budgets[0] = secrets.Budget{Amount: 0.0000015, Unit: secrets.USD} }, "decimals"},
	} {
		s := secrets.Set{Value: "a-long-value", Budgets: []secrets.Budget{{Amount: 5, Unit: secrets.Tokens}},
			Bindings: []secrets.Binding{{Host: "api.example.org", In: secrets.Place{Kind: secrets.InBasic}, Model: secrets.OpenAI}}}
		c.change(&s)
		err := secrets.Check(s)
		if c.want == "" && err != nil || c.want != "" && (api.KindOf(err) != api.KindInvalid || !strings.Contains(fmt.Sprint(err), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func budgets(n int) func(*secrets.Set) {
	return func(s *secrets.Set) {
		s.Budgets = nil
		for i := range n {
			s.Budgets = append(s.Budgets, secrets.Budget{Amount: 1, Unit: []secrets.Unit{secrets.Requests, secrets.Tokens, secrets.USD}[i%3], Per: []secrets.Per{secrets.PerTask, secrets.PerDay, secrets.PerTotal}[i/3%3]})
		}
	}
}
