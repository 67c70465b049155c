package view

import (
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
)

// RepoName is the last part of a repository's address.
func RepoName(address string) string {
	p := address
	if u, err := url.Parse(address); err == nil && u.Path != "" {
		p = u.Path
	}
	if i := strings.LastIndexByte(p, ':'); i >= 0 && !strings.Contains(p[i:], "/") {
		p = p[i+1:]
	}
	return strings.TrimSuffix(path.Base(p), ".git")
}

// StateOf is the state of a task, or the outcome of one that is done.
func StateOf(t api.Task) string {
	if t.State == api.TaskDone {
		return human.Sanitize(string(t.Outcome))
	}
	return human.Sanitize(string(t.State))
}

// RequestOf says in words what a task was asked.
func RequestOf(t api.Task) string {
	switch c := t.Create; {
	case c.Request != "":
		return c.Request
	case c.Replay != nil:
		return fmt.Sprintf("replay of task %s, attempt %d", c.Replay.Task, c.Replay.Attempt)
	}
	return "a program of the caller's"
}

// RecordingPrefix begins the name of a model that answers from a file.
const RecordingPrefix = "replay:"

// ModelsOf says in a line which role has which model.
func ModelsOf(m api.Models) string {
	var out []string
	for _, r := range []struct{ role, name string }{{"planner", m.Planner}, {"coder", m.Coder}, {"debugger", m.Debugger}, {"large", m.Large}, {"small", m.Small}} {
		if r.name != "" {
			out = append(out, r.role+" "+r.name)
		}
	}
	return strings.Join(out, ", ")
}

// escalation shows that a role moves to the larger model.
func (p *Progress) escalation(x api.EscalationEvent) {
	p.Line(attemptHead(human.Sanitize(x.Role), x.Attempt, x.Of), progress.Yellow, "changes from "+x.From+" to "+x.To+": "+x.Why)
}

// modelSaid is an error of a model with who it was. The vendor's own errors begin
// with the vendor, which is the first part of the model's name; a recording says
// what its model said.
func modelSaid(model, text string) string {
	model = strings.TrimPrefix(model, RecordingPrefix)
	vendor, _, _ := strings.Cut(model, ":")
	if strings.HasPrefix(text, vendor+":") || strings.HasPrefix(text, "model "+model) {
		return text
	}
	return vendor + ": " + text
}

// retryLine returns what failed, which try it was, and when the next is.
func retryLine(m api.ModelRetryEvent) string {
	next := "asking again"
	if m.WaitMS > 0 {
		next = "next in " + human.Duration(time.Duration(m.WaitMS)*time.Millisecond)
	}
	return fmt.Sprintf("%s (try %d of %d), %s", modelSaid(m.Model, m.Error), m.Attempt, m.Of, next)
}

// usage reports what a hosted model was asked and what that cost.
func (p *Progress) usage(t api.Task) {
	if t.Usage.InputTokens+t.Usage.OutputTokens == 0 {
		return
	}
	name := t.Model
	if t.Models != (api.Models{}) {
		name = ModelsOf(t.Models)
	}
	p.Line("", "", usageLine(name, t.Usage))
}

func usageLine(model string, u api.Usage) string {
	calls := fmt.Sprintf("%d calls", u.Requests)
	if u.Requests == 1 {
		calls = "1 call"
	}
	cost := fmt.Sprintf("$%.4f", u.CostUSD)
	switch {
	case u.Unpriced > 0 && u.CostUSD == 0:
		cost = "cost unknown (no price is known for this model)"
	case u.Unpriced > 0:
		cost += fmt.Sprintf(" and the unknown cost of %d calls", u.Unpriced)
	}
	if model != "" { // candidates with different models have none in common
		calls = model + ": " + calls
	}
	return fmt.Sprintf("%s, %d tokens in (%d cached), %d out, %s", calls, u.InputTokens, u.CachedTokens, u.OutputTokens, cost)
}

// showMade reports which files a program made, and which of them are not kept.
func (p *Progress) showMade(r api.ExecutionResult) {
	if len(r.OutputFiles) > 0 {
		var made []string
		for i, f := range r.OutputFiles {
			if i == 8 {
				made = append(made, "and more")
				break
			}
			made = append(made, f.Path+" ("+human.Size(int64(len(f.Bytes())))+")")
		}
		p.Line("", "", "files made: "+strings.Join(made, ", "))
	}
	for _, left := range r.LeftOut {
		p.Line("", progress.Yellow, "not saved: "+left)
	}
}

// ReplyHint is the command that answers the question of a task.
func ReplyHint(id api.TaskID) string {
	return `hortus task reply ` + human.Sanitize(string(id)) + ` "ANSWER"`
}

// answerable shows the command that answers the question of a task, if it has one.
func (p *Progress) answerable(t api.Task) {
	if t.Outcome == api.OutcomeNeedsHuman && t.Question != "" && t.Create.Request != "" {
		p.Always("reply: ", ReplyHint(t.ID))
	}
}

// Delivered reports whether the delivery that was requested happened, or there was
// nothing to deliver.
func Delivered(t api.Task, request bool) bool {
	if t.Repo == nil || t.Repo.Head == "" {
		return true
	}
	done := func(d *api.Delivery) bool {
		return d != nil && d.Error == nil && len(d.Refused) == 0 && (d.URL != "" || !request)
	}
	if len(t.Repo.Repositories) == 0 {
		return done(t.Repo.Delivery)
	}
	return !slices.ContainsFunc(t.Repo.Repositories, func(r api.RepositoryResult) bool { return r.Head != "" && !done(r.Delivery) })
}

// lastAttempt returns the last attempt, or nil.
func lastAttempt(t api.Task) *api.Attempt {
	if len(t.Attempts) == 0 {
		return nil
	}
	return &t.Attempts[len(t.Attempts)-1]
}

// ProgramFiles names the files of a program.
func ProgramFiles(a api.CodeArtifact) (names []string) {
	for _, f := range a.Files {
		names = append(names, f.Path)
	}
	return names
}

// Lines of a program and of its output that "task show" prints.
const (
	shownCode   = 40
	shownOutput = 10
)

// ShowProgram adds what a verified task was verified by: the program, its commands, its
// output and its checks.
func ShowProgram(w io.Writer, t api.Task) {
	at := lastAttempt(t)
	if at == nil || t.Create.Repo != nil || at.Result == nil {
		return
	}
	if at.Artifact.Compile != "" {
		fmt.Fprintf(w, "compiled with\t%s\n", human.Sanitize(at.Artifact.Compile))
	}
	fmt.Fprintf(w, "run with\t%s\n", human.Sanitize(at.Artifact.Run))
	for _, f := range at.Artifact.Files {
		block(w, f.Path, f.Content, shownCode)
	}
	block(w, "output", at.Result.Stdout, shownOutput)
	for _, f := range t.Create.Files {
		fmt.Fprintf(w, "input file\t%s (%s)\n", human.Sanitize(f.Path), human.Size(f.Size))
	}
	for _, f := range at.Result.OutputFiles {
		fmt.Fprintf(w, "output file\t%s (%s)\n", human.Sanitize(f.Path), human.Size(int64(len(f.Bytes()))))
	}
	for _, left := range at.Result.LeftOut {
		fmt.Fprintf(w, "not saved\t%s\n", human.Sanitize(left))
	}
	if at.Result.OK {
		fmt.Fprintf(w, "verified by\t%s%s\n", human.Sanitize(at.Result.Evidence(at.Artifact.Output)), bySchema(t))
	}
	for _, c := range at.Result.Checks {
		how := "passed"
		if !c.Passed {
			how = "FAILED"
		}
		fmt.Fprintf(w, "check %s\t%s\n", how, human.Sanitize(c.Name))
	}
	for _, c := range at.Result.Cautions {
		fmt.Fprintf(w, "CAUTION\tthe program uses %s\n", human.Sanitize(c.String()))
	}
}

// bySchema adds that the result is valid for the request's schema.
func bySchema(t api.Task) string {
	if len(t.Value) == 0 {
		return ""
	}
	return ", valid for the schema"
}

// block adds the first lines of a text.
func block(w io.Writer, name, text string, most int) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		if i == most {
			fmt.Fprintf(w, "\t... %d more lines\n", len(lines)-most)
			break
		}
		head := ""
		if i == 0 {
			head = human.Sanitize(name)
		}
		fmt.Fprintf(w, "%s\t%s\n", head, human.Sanitize(strings.ReplaceAll(l, "\t", "    ")))
	}
}
