package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

const (
	// maxInput is the longest input of a call that is run, in bytes.
	maxInput = 512 << 10
	// keptInput is what the history keeps of an input that is too long, or no JSON.
	keptInput = 2 << 10
	maxName   = 64
	maxID     = 64
)

// offeredTool is a tool and what its input must be.
type offeredTool struct {
	tool   Tool
	schema *schema
	// fields is the schema in a line, for a model that got it wrong.
	fields string
}

func offer(t Tool, spec model.Tool) (*offeredTool, error) {
	s, err := parseSchema(spec.Input)
	if err != nil || s.Type != "object" {
		return nil, api.Errorf(api.KindInternal, "the schema of tool %q is not an object schema", spec.Name)
	}
	if !wordy(spec.Name, maxName) {
		return nil, api.Errorf(api.KindInternal, "%q is not a valid tool name", spec.Name)
	}
	if s.Additional == nil {
		s.Additional = json.RawMessage("false") // a tool takes what its schema names, also where that does not say so
	}
	return &offeredTool{tool: t, schema: s, fields: s.fields()}, nil
}

// named copies calls into a form that every vendor takes back: with an identifier
// of its own for each, a name that may be one, and an input of bounded length.
func (l *Loop) named(calls []model.Call) []model.Call {
	var out []model.Call
	for i, c := range calls {
		if !wordy(c.ID, maxID) || l.ids[c.ID] {
			for n := 0; ; n++ {
				if c.ID = fmt.Sprintf("call_%d_%d_%d", l.steps, i+1, n); !l.ids[c.ID] {
					break
				}
			}
		}
		l.ids[c.ID] = true
		if !wordy(c.Name, maxName) {
			c.Name = "unknown_tool"
		}
		if len(strings.TrimSpace(string(c.Input))) == 0 {
			c.Input = json.RawMessage("{}")
		}
		switch n := len(c.Input); {
		case n > maxInput:
			c.Input = mustJSON(map[string]string{tooLong: fmt.Sprintf("%d bytes removed", n)})
		case n > keptInput && !json.Valid(c.Input):
			// What is left must not be JSON by chance: it would be run.
			c.Input = json.RawMessage(api.Clip(string(c.Input), keptInput) + "[...cut")
		}
		out = append(out, c)
	}
	return out
}

// tooLong is the one field of an input in place of one that was too long.
const tooLong = "too_long"

// wordy reports whether s is made of letters, digits, - and _ alone, and is neither
// empty nor long.
func wordy(s string, most int) bool {
	return s != "" && len(s) <= most && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) < 0
}

// check finds the tool of a call, or says what is wrong with the call in words
// that the model can learn from.
func (l *Loop) check(c model.Call) (Tool, string) {
	o := l.tools[c.Name]
	if o == nil {
		names := make([]string, 0, len(l.specs))
		for _, s := range l.specs {
			names = append(names, s.Name)
		}
		if near := nearest(c.Name, names); near != "" {
			return nil, fmt.Sprintf("There is no tool %q. Did you mean %s? Its fields: %s.", c.Name, near, l.tools[near].fields)
		}
		return nil, fmt.Sprintf("There is no tool %q. The tools are: %s.", c.Name, strings.Join(names, ", "))
	}
	var why string
	var v any
	switch err := strictJSON(c.Input, &v); {
	case err != nil:
		why = fmt.Sprintf("The input is not JSON: %v. Nothing was run.", err)
	default:
		if m, ok := v.(map[string]any); ok && len(m) == 1 && m[tooLong] != nil {
			why = fmt.Sprintf("The input exceeds the maximum of %d bytes and was removed. Use several smaller calls.", maxInput)
		} else if wrong := o.schema.check("", v); wrong != "" {
			why = fmt.Sprintf("The input is wrong: %s. Nothing was run.", wrong)
		}
	}
	if why == "" {
		return o.tool, ""
	}
	return nil, why + " The fields of " + c.Name + ": " + o.fields + "."
}

// nearest finds the name that was probably meant, or "".
func nearest(name string, names []string) string {
	low := strings.ToLower(name)
	i := slices.IndexFunc(names, func(n string) bool {
		return strings.EqualFold(n, name) || len(low) > 3 && (strings.Contains(n, low) || strings.Contains(low, strings.ToLower(n)))
	})
	if i < 0 {
		return ""
	}
	return names[i]
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings
	}
	return b
}

// maxBeside is the most calls that run at the same time.
const maxBeside = 8

// pendingCall is a call of an answer, and what came of it.
type pendingCall struct {
	call model.Call
	// tool is nil if the call cannot be run; why is the reason then.
	tool Tool
	why  string
	n    int // counts the calls that were run

	res    Result
	err    error
	took   time.Duration
	broken any // what the tool panicked with
}

// next returns the first calls of a list that may run at the same time: one of any tool, or consecutive ones of tools
// that change nothing in the sandbox, such as research. Calls that cannot be run are between any others.
func (r *run) next(calls []model.Call) (group []*pendingCall) {
	var last *pendingCall // that can be run
	for _, c := range calls {
		p := &pendingCall{call: c}
		if p.tool, p.why = r.check(c); p.tool != nil {
			if last != nil && !(r.reads[c.Name] && r.reads[last.call.Name]) {
				break
			}
			r.made++
			p.n, last = r.made, p
			if q, ok := p.tool.(researchTool); ok {
				p.tool = q.begin(c.Input)
			}
		}
		group = append(group, p)
	}
	return group
}

// perform runs calls at the same time, and returns when all of them have ended.
func (r *run) perform(all []*pendingCall) {
	defer func() {
		for _, p := range all {
			if q, ok := p.tool.(*questionCall); ok {
				q.end()
			}
		}
	}()
	var runs []*pendingCall
	for _, p := range all {
		if p.tool != nil {
			runs = append(runs, p)
		}
	}
	if len(runs) == 1 {
		r.performOne(runs[0])
		return
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, maxBeside)
	for _, p := range runs {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() {
				p.broken = recover()
				<-slots
			}()
			r.performOne(p)
		})
	}
	wait.Wait()
	for _, p := range runs {
		if p.broken != nil {
			panic(p.broken) // in the goroutine of the Run's caller
		}
	}
}

func (r *run) performOne(p *pendingCall) {
	start := r.cfg.Now()
	p.res, p.err = r.cfg.Do(r.ctx, p.n, p.tool, p.call.Input)
	p.took = r.cfg.Now().Sub(start)
}

// callTool is the Do of a configuration without one.
func callTool(ctx context.Context, _ int, t Tool, input json.RawMessage) (Result, error) {
	return t.Call(ctx, input)
}
