package secrets

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// Model is the API of language models that the servers of a binding speak. What a request used is
// read from the answers of this API.
type Model string

const (
	// Anthropic is the Messages API.
	Anthropic Model = "anthropic"
	// OpenAI are Chat Completions and Responses.
	OpenAI Model = "openai"
	// Gemini is Google's Gemini API.
	Gemini Model = "gemini"
)

// Unit is what a budget limits.
type Unit string

const (
	Requests Unit = "requests"
	Tokens   Unit = "tokens" // of prompts and answers, cached ones too
	USD      Unit = "usd"    // US dollars, computed from the tokens with a table of prices
)

// Per is what a budget is for.
type Per string

const (
	// PerTask is a budget for each task. All sandboxes of a task share it. A sandbox without a
	// task shares it with what it was forked or restored from, and with what is forked or
	// restored from it.
	PerTask Per = "task"
	// PerDay is a budget for each day in UTC.
	PerDay Per = "day"
	// PerTotal is one budget, from the time that the secret has budgets.
	PerTotal Per = "total"
)

// Budget limits what requests with a secret may use. A request is refused if nothing is left of
// one of the budgets.
type Budget struct {
	// Amount is a whole number, but for US dollars, which have up to six decimals.
	Amount float64 `json:"amount"`
	Unit   Unit    `json:"unit"`
	// Per is PerTask by default.
	Per Per `json:"per,omitempty"`
}

// Bounds on budgets.
const (
	MaxBudgets  = 8 // of a secret
	MaxRequests = 1_000_000_000
	MaxTokens   = 1_000_000_000_000
	MaxUSD      = 1_000_000
)

// microUSD is the number of the parts that US dollars are counted in.
const microUSD = 1_000_000

// Limit returns the amount as it is counted: requests, tokens, or millionths of a US dollar.
func (b Budget) Limit() int64 {
	if b.Unit == USD {
		return int64(math.Round(b.Amount * microUSD))
	}
	return int64(b.Amount)
}

// String returns the form that ParseBudget reads.
func (b Budget) String() string {
	return FormatAmount(b.Unit, b.Limit()) + "/" + string(cmp.Or(b.Per, PerTask))
}

// FormatAmount writes an amount as it is counted, such as 500requests or 0.25usd.
func FormatAmount(u Unit, n int64) string {
	if u != USD {
		return strconv.FormatInt(n, 10) + string(u)
	}
	whole, part := n/microUSD, n%microUSD
	text := strconv.FormatInt(whole, 10)
	if part != 0 {
		text += strings.TrimRight("."+strconv.FormatInt(microUSD+part, 10)[1:], "0")
	}
	return text + string(u)
}

// ParseBudget reads a budget: AMOUNT UNIT [/PER], such as 5usd, 2000000tokens/day and
// 500requests/total. KindInvalid for what is none.
func ParseBudget(text string) (Budget, error) {
	invalid := func(why string) (Budget, error) {
		return Budget{}, api.Errorf(api.KindInvalid, "%.40q is not a budget: %s", text, why).
			WithHint("write an amount, its unit (requests, tokens or usd) and what it is for (/task, /day or /total; a task by default), such as 5usd, 2000000tokens/day or 500requests/total")
	}
	rest, per, has := strings.Cut(strings.TrimSpace(text), "/")
	b := Budget{Per: PerTask}
	if has {
		if b.Per = Per(strings.TrimSpace(per)); b.Per == "" {
			return invalid("nothing follows the /")
		}
	}
	i := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if i < 1 {
		return invalid("it has no amount and unit")
	}
	number := rest[:i]
	b.Unit = Unit(strings.TrimSpace(rest[i:]))
	amount, err := strconv.ParseFloat(number, 64)
	if err != nil || len(number) > 24 || strings.HasPrefix(number, ".") || strings.HasSuffix(number, ".") {
		return invalid("the amount is not a number")
	}
	b.Amount = amount
	if err := b.check(); err != nil {
		return invalid(err.Error())
	}
	return b, nil
}

// check refuses a budget that is malformed or out of bounds.
func (b Budget) check() error {
	most := 0.0
	switch b.Unit {
	case Requests:
		most = MaxRequests
	case Tokens:
		most = MaxTokens
	case USD:
		most = MaxUSD
	default:
		return api.Errorf(api.KindInvalid, "the unit %.40q is none of %s, %s and %s", string(b.Unit), Requests, Tokens, USD)
	}
	if !slices.Contains([]Per{"", PerTask, PerDay, PerTotal}, b.Per) {
		return api.Errorf(api.KindInvalid, "%.40q is none of %s, %s and %s", string(b.Per), PerTask, PerDay, PerTotal)
	}
	if !(b.Amount > 0) || b.Amount > most {
		return api.Errorf(api.KindInvalid, "the amount is not between 0 and %.0f", most)
	}
	if b.Unit != USD && b.Amount != math.Trunc(b.Amount) {
		return api.Errorf(api.KindInvalid, "%s are counted in whole numbers", b.Unit)
	}
	if parts := b.Amount * microUSD; b.Unit == USD && (b.Limit() < 1 || math.Abs(parts-math.Round(parts)) > 1e-3) {
		return api.Errorf(api.KindInvalid, "US dollars have up to six decimals")
	}
	return nil
}

// checkBudgets refuses budgets that are malformed, or of which a request cannot be counted.
func checkBudgets(s Set) error {
	invalid := func(format string, args ...any) error { return api.Errorf(api.KindInvalid, "secret: "+format, args...) }
	if len(s.Budgets) > MaxBudgets {
		return invalid("%d budgets; the maximum is %d", len(s.Budgets), MaxBudgets)
	}
	if len(s.Budgets) > 0 && s.ForHeaders {
		return invalid("it is for rules of headers, whose requests are not counted, so it has no budgets")
	}
	if len(s.Budgets) > 0 && len(s.Bindings) == 0 {
		return invalid("it is for the daemon alone, whose requests are not counted, so it has no budgets")
	}
	seen := map[Budget]bool{}
	for i, b := range s.Budgets {
		if err := b.check(); err != nil {
			return invalid("budget %d: %w", i+1, err)
		}
		kind := Budget{Unit: b.Unit, Per: cmp.Or(b.Per, PerTask)}
		if seen[kind] {
			return invalid("two budgets are in %s for each %s", kind.Unit, kind.Per)
		}
		seen[kind] = true
		if b.Unit == Requests {
			continue
		}
		for n, in := range s.Bindings {
			if in.Model == "" {
				return invalid("budget %d is in %s, which are read from the answers of a model, but binding %d does not say which API they speak (model: %s, %s or %s)",
					i+1, b.Unit, n+1, Anthropic, OpenAI, Gemini)
			}
		}
	}
	return nil
}
