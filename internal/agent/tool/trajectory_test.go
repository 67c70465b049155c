package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/tool"
)

// text makes n bytes in the given number of lines, each with the mark.
func text(n, lines int, mark string) string {
	if lines <= 0 {
		return ""
	}
	var b strings.Builder
	for i := range lines {
		most := n*(i+1)/lines - b.Len() - 1
		line := fmt.Sprintf("%s line %d ", mark, i+1)
		line += strings.Repeat("x", max(0, most-len(line)))
		b.WriteString(line[:max(0, min(most, len(line)))] + "\n")
	}
	return b.String()
}

// paths are the files of the repository.
func (r *recordedRun) paths() (all []string) {
	for i, n := range r.Dirs {
		for j := range n {
			all = append(all, fmt.Sprintf("package%02d/directory%03d/source_of_it.py", i, j))
		}
	}
	for i := range r.Root {
		all = append(all, fmt.Sprintf("some_file_%02d.txt", i))
	}
	slices.Sort(all)
	return all
}

const recordedDir = "package03/directory004/" // of the files that are read

// lay makes the repository and the outputs of the commands.
func (r *recordedRun) lay(b *bench) {
	for _, p := range r.paths() {
		b.put(p, "pass\n")
	}
	for name, f := range r.Files {
		b.put(recordedDir+"file_"+name+".txt", text(f.Tokens*token, f.Lines, "the "+name))
	}
	for i, s := range r.Steps {
		// The paths of matches are part of the output.
		if s.Kind == "search" {
			each, mark := s.Out*token/s.Lines-len(recordedDir)-len("found_00_000.txt:"), fmt.Sprintf("needle%02d", i)
			for n := range s.Lines {
				if !s.One {
					b.put(fmt.Sprintf("%sfound_%02d_%03d.txt", recordedDir, i, n), strings.Repeat("\n", 110)+text(each, 1, mark))
				}
			}
			if s.One {
				b.put(fmt.Sprintf("%sfound_%02d.txt", recordedDir, i), strings.Repeat("\n", 110)+text((s.Out*token-4*s.Lines), s.Lines, mark))
			}
		}
		from := i
		if s.Same > 0 {
			from = s.Same - 1
		}
		b.put(fmt.Sprintf(".o/%02d", i), text(s.Out*token, s.Lines, fmt.Sprintf("out %d", from)))
	}
}

// replaying is a model that plays a run with our tools, and weighs what it is sent.
type replaying struct {
	*weight
	run   *recordedRun
	steps []recordedStep
	next  int
	b     *bench
}

func (*replaying) Name() string { return "replaying" }

var lineNumber = regexp.MustCompile(`(?m)^ *\d+\t`)

// partsOf weighs a request.
func (p *replaying) partsOf(req model.Request) map[string]int {
	bytes, parts := map[string]int{"instructions": len(req.System)}, map[string]int{}
	for _, t := range req.Tools {
		bytes["tools"] += len(t.Name) + len(t.Description) + len(t.Input)
	}
	for i, m := range req.Messages {
		switch {
		case m.Role == model.RoleTool:
			bytes["results"] += len(m.Text) + p.run.ResultFrame*token
			for _, n := range lineNumber.FindAllString(m.Text, -1) {
				p.dear += 2*token - len(n)
			}
		case m.Role == model.RoleAssistant:
			bytes["said"] += len(m.Text)
			for _, c := range m.Calls {
				bytes["calls"] += len(c.Name) + len(c.Input) + p.run.CallFrame*token
			}
		case i == 0:
			bytes["request"] += p.run.Request * token
			bytes["brief"] += len(m.Text) - p.run.Request*token
		default:
			bytes["notices"] += len(m.Text)
		}
	}
	for k, n := range bytes {
		parts[k] = n / token
	}
	return parts
}

// uses maps a step to our tools.
func (p *replaying) uses(i int, s recordedStep) []use {
	shell := func(size int) use {
		command := fmt.Sprintf("cat .o/%02d; exit %d #", i, s.Exit)
		return use{"shell", in{"command": command + strings.Repeat("x", max(0, size-len(command)))}}
	}
	path := recordedDir + "file_" + s.File + ".txt"
	switch s.Kind {
	case "list":
		if s.Sub {
			return []use{{"view", in{"path": "package01"}}}
		}
		return []use{{"view", in{"path": "."}}}
	case "view":
		a := in{"path": path}
		if s.From > 0 {
			a["start_line"] = s.From
		}
		if s.To > 0 {
			a["end_line"] = s.To
		}
		return []use{{"view", a}}
	case "search":
		a := in{"pattern": fmt.Sprintf("needle%02d line [0-9]+", i), "glob": "*.txt"}
		if s.One {
			delete(a, "glob")
			a["path"] = fmt.Sprintf("%sfound_%02d.txt", recordedDir, i)
		}
		return []use{{"search", a}}
	case "edit":
		line := strings.Split(p.b.get(path), "\n")[s.At-1]
		return []use{{"str_replace", in{"path": path, "old": line, "new": text(s.New*token, 1, "new")[:s.New*token-1]}}}
	case "write":
		// The command line around the content of the file is not part of it.
		size := s.Call*token - len("cat > test_the_change.txt << 'EOF'\nEOF\npython test_the_change.txt")
		if s.File == "" {
			path = fmt.Sprintf("test_%02d.txt", i)
		}
		all := []use{{"create", in{"path": path, "content": text(size, max(1, size/40), "#")}}}
		if s.Lines > 0 {
			all = append(all, shell(len("python test_the_change.txt")))
		}
		return all
	case "submit":
		return []use{{"finish", in{"summary": text(75*token, 1, "Fixed it.")}}}
	}
	return []use{shell(s.Call * token)}
}

func (p *replaying) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	p.add(p.partsOf(req))
	i := p.next
	p.next++
	s := p.steps[i]
	msg := model.Message{Role: model.RoleAssistant, Text: strings.Repeat("x", s.Say*token)}
	for n, u := range p.uses(slices.Index(p.run.Steps, s), s) {
		raw, err := json.Marshal(u.input)
		if err != nil {
			return model.Response{}, err
		}
		msg.Calls = append(msg.Calls, model.Call{ID: fmt.Sprintf("c%d_%d", i, n), Name: u.tool, Input: raw})
	}
	return model.Response{Message: msg, Stop: model.StopTools, Usage: api.Usage{Requests: 1}}, nil
}

// replay runs steps through the loop.
func (r *recordedRun) replay(t *testing.T, steps []recordedStep) *weight {
	t.Helper()
	b := newBench(t)
	r.lay(b)
	p := &replaying{weight: &weight{parts: map[string]int{}}, run: r, steps: steps, b: b}
	brief := loop.Brief{Request: strings.Repeat("x", r.Request*token), Gate: "python -m pytest -q tests", Tree: loop.Tree(r.paths()), Mark: "tsk_0123456789abcdef"}
	rep := loop.New(loop.Config{
		Model: p, System: loop.System, Tools: b.set.All(), Emit: nobody{}, Reads: tool.Reads(), Research: &loop.Research{Copies: true},
	}).Run(t.Context(), brief.Message())
	if rep.Stop != api.StopFinished || p.requests != len(steps) {
		t.Fatalf("%d requests, %+v", p.requests, rep)
	}
	return p.weight
}

// What Hortus's loop sends for the steps of recorded runs of mini-swe-agent, compared with what that sends. Each step is
// mapped to the tool that does it, and none is left out.
func TestTrajectories(t *testing.T) {
	raw, err := os.ReadFile("testdata/trajectories.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Runs []*recordedRun }
	if err := json.Unmarshal(raw, &all); err != nil || len(all.Runs) == 0 {
		t.Fatalf("%v, %d runs", err, len(all.Runs))
	}
	for _, r := range all.Runs {
		t.Run(r.Name, func(t *testing.T) {
			mini := r.linearly()
			sent, first := 0, r.Steps[0].Prompt
			for _, s := range r.Steps {
				sent += s.Prompt
			}
			t.Logf("mini-swe-agent: %d tokens replayed, %d recorded", mini.total, sent)
			// The templates of a run may be others than those of the replay; what comes behind them is as recorded.
			replayed, recorded := mini.total-mini.requests*(r.Template/token+r.Request), sent-len(r.Steps)*first
			if d := float64(replayed)/float64(recorded) - 1; sent > 0 && (d < -0.1 || d > 0.1) {
				t.Errorf("behind the templates %d tokens are replayed, %d recorded", replayed, recorded)
			}
			every := r.replay(t, r.Steps)
			ours := r.replay(t, slices.DeleteFunc(slices.Clone(r.Steps), func(s recordedStep) bool { return s.Kind == "patch" }))
			ratio, cached := float64(ours.total)/float64(mini.total), ours.cost()/mini.cost()
			t.Logf("Hortus: %d tokens, ratio %.3f; with a cache ratio %.3f; with every step %.3f and %.3f",
				ours.total, ratio, cached, float64(every.total)/float64(mini.total), every.cost()/mini.cost())
			t.Logf("  if the number of a line costs two tokens: %.3f", float64(ours.total+ours.dear/token)/float64(mini.total+mini.dear/token))
			if ratio > r.Most || cached > r.Most {
				t.Errorf("the ratios are above %.3f", r.Most)
			}
			if x := float64(every.total) / float64(mini.total); x > r.MostEvery {
				t.Errorf("with every step the ratio is above %.3f", r.MostEvery)
			}
			for _, k := range []string{"instructions", "tools", "brief", "request", "said", "calls", "results", "notices"} {
				t.Logf("  %-12s %7d of mini-swe-agent's, %7d of ours, %+5.1f %% of its total", k, mini.parts[k], ours.parts[k], 100*float64(ours.parts[k]-mini.parts[k])/float64(mini.total))
			}
		})
	}
}
