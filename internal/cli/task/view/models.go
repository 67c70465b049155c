package view

import (
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
)

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
