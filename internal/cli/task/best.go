package task

import (
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/best"
)

// bestFlags let several agents work on the same request.
type bestFlags struct {
	BestOf    *int     `name:"best-of" placeholder:"N" help:"Number of agents that work side by side on the same request (2 to 16). The best result is that of the task. --steps, --tokens and --cost are for all together. docs/best-of.md."`
	First     bool     `help:"With --best-of: end the other agents as soon as one passes the gate."`
	Candidate []string `sep:"none" placeholder:"KEY=VALUE,..." help:"With --best-of: how one agent differs: agent=NAME, model=NAME, temperature=T, and strategy=TEXT as the last one. Repeatable up to N times; the others differ by default."`
}

// request turns the flags into the api's words; nil if there is one agent.
func (f *bestFlags) request() (*best.Request, error) {
	if f.BestOf == nil {
		for _, other := range []struct {
			given bool
			name  string
		}{{f.First, "--first"}, {len(f.Candidate) > 0, "--candidate"}} {
			if other.given {
				return nil, api.Errorf(api.KindInvalid, "%s has no effect without --best-of", other.name).WithHint("add --best-of 3")
			}
		}
		return nil, nil
	}
	r := &best.Request{Of: *f.BestOf, First: f.First}
	if r.Of < best.MinOf || r.Of > best.MaxOf {
		return nil, api.Errorf(api.KindInvalid, "--best-of: %d is not between %d and %d", r.Of, best.MinOf, best.MaxOf)
	}
	if len(f.Candidate) > r.Of {
		return nil, api.Errorf(api.KindInvalid, "--candidate is given %d times, and --best-of is %d", len(f.Candidate), r.Of)
	}
	for _, text := range f.Candidate {
		v, err := variant(text)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "--candidate: %w", err).WithHint("for example --candidate 'model=anthropic,strategy=Write a failing test first.'")
		}
		r.Vary = append(r.Vary, v)
	}
	return r, nil
}

// variant reads how a candidate differs: "agent=claude,model=anthropic", "temperature=0.7,strategy=any text, to the end".
func variant(text string) (v best.Variant, err error) {
	seen := map[string]bool{}
	for rest := text; ; {
		key, value, ok := strings.Cut(rest, "=")
		key = strings.TrimSpace(key)
		rest = ""
		if key != "strategy" {
			var more bool
			if value, rest, more = strings.Cut(value, ","); more && strings.TrimSpace(rest) == "" {
				return v, api.Errorf(api.KindInvalid, "%.200q ends with a comma", text)
			}
		}
		value = strings.TrimSpace(value)
		switch {
		case !ok || value == "":
			return v, api.Errorf(api.KindInvalid, "%.200q has %.40q without a value", text, key)
		case seen[key]:
			return v, api.Errorf(api.KindInvalid, "%.200q sets %s twice", text, key)
		}
		seen[key] = true
		switch key {
		case "agent":
			v.Agent = value
		case "model":
			v.Model = value
		case "strategy":
			v.Strategy = value
		case "temperature":
			t, err := strconv.ParseFloat(value, 64)
			if err != nil || !(t >= 0 && t <= 2) {
				return v, api.Errorf(api.KindInvalid, "the temperature %.40q is not a number from 0 to 2", value)
			}
			v.Temperature = &t
		default:
			return v, api.Errorf(api.KindInvalid, "unknown key %.40q; use agent, model, temperature or strategy", key)
		}
		if rest == "" {
			return v, nil
		}
	}
}

// modelsOf are the models that the candidates of a request name.
func modelsOf(r *api.RepoTask) (out []string) {
	if r == nil || r.Best == nil {
		return nil
	}
	for _, v := range r.Best.Vary {
		if v.Model != "" && v.Agent == "" {
			out = append(out, v.Model)
		}
	}
	return out
}
