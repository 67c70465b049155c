package task

import (
	"strconv"
	"strings"

	"hortus.dev/api"
)

// bestFlags let several agents work on the same request.
type bestFlags struct {
	BestOf    *int     `name:"best-of" placeholder:"N" help:"Number of agents that work side by side on the same request (2 to 16). The best result is that of the task. --steps, --tokens and --cost are for all together. docs/best-of.md."`
	Search    string   `placeholder:"DEPTH,WIDTH" help:"Search: WIDTH agents (1 to 16) side by side, on up to DEPTH levels (1 to 6), at most 32 agents together. While none passes, the next level continues the best work so far. --search 1,N is --best-of N."`
	First     bool     `help:"With --best-of or --search: end the other agents as soon as one passes the gate."`
	Candidate []string `sep:"none" placeholder:"KEY=VALUE,..." help:"With --best-of or --search: how one agent differs: agent=NAME, model=NAME, temperature=T, and strategy=TEXT as the last one. Repeatable up to N or WIDTH times; the others differ by default."`
}

// request turns the flags into the api's words; nil if there is one agent.
func (f *bestFlags) request() (*api.BestOf, error) {
	r := &api.BestOf{First: f.First}
	name := "--best-of"
	switch {
	case f.BestOf != nil && f.Search != "":
		return nil, api.Errorf(api.KindInvalid, "--best-of and --search exclude each other").WithHint("use --search DEPTH,%d alone", *f.BestOf)
	case f.BestOf != nil:
		r.Of = *f.BestOf
	case f.Search != "":
		name = "--search"
		var err error
		if r.Depth, r.Of, err = depthWidth(f.Search); err != nil {
			return nil, err
		}
	default:
		for _, other := range []struct {
			given bool
			name  string
		}{{f.First, "--first"}, {len(f.Candidate) > 0, "--candidate"}} {
			if other.given {
				return nil, api.Errorf(api.KindInvalid, "%s has no effect without --best-of or --search", other.name).WithHint("add --best-of 3")
			}
		}
		return nil, nil
	}
	if why := r.Wrong(); why != "" {
		return nil, api.Errorf(api.KindInvalid, "%s: %s", name, why)
	}
	if len(f.Candidate) > r.Of {
		return nil, api.Errorf(api.KindInvalid, "--candidate is given %d times, and %s has %d side by side", len(f.Candidate), name, r.Of)
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

// depthWidth reads the value of --search.
func depthWidth(text string) (depth, width int, err error) {
	d, w, ok := strings.Cut(text, ",")
	if ok {
		depth, err = strconv.Atoi(strings.TrimSpace(d))
	}
	if ok && err == nil {
		width, err = strconv.Atoi(strings.TrimSpace(w))
	}
	if !ok || err != nil || depth < 1 {
		return 0, 0, api.Errorf(api.KindInvalid, "--search: %.40q is not DEPTH,WIDTH", text).WithHint("for example --search 3,4: up to 3 levels of 4 agents")
	}
	return depth, width, nil
}

// variant reads how a candidate differs: "agent=claude,model=anthropic", "temperature=0.7,strategy=any text, to the end".
func variant(text string) (v api.Variant, err error) {
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
