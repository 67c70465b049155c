package recall

import (
	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

// CutTurn is what an agent that is a program is told when its turn was cut: it begins again, in a new conversation over the
// same files.
const CutTurn = "An earlier attempt at this work was interrupted by a restart of the platform. Its effects may be partial. " +
	"The files of /workspace are as they were. Look at them before you continue.\n\n"

// Worked is how the agent's part of a round ended: a loop.Report as plain data.
type Worked struct {
	Stop      api.StopReason
	Why       string `json:",omitempty"`
	Steps     int
	Usage     api.Usage
	Model     string
	Text      string       `json:",omitempty"`
	Finish    *loop.Finish `json:",omitempty"`
	Err       *api.Error   `json:",omitempty"`
	Completed []string     `json:",omitempty"`
	Skipped   []string     `json:",omitempty"`
}

// AsWorked returns a report as plain data.
func AsWorked(r loop.Report) Worked {
	return Worked{r.Stop, r.Why, r.Steps, r.Usage, r.Model, r.Text, r.Finish, api.AsError(r.Err), r.Completed, r.Skipped}
}

// Report returns the report.
func (r Worked) Report() loop.Report {
	rep := loop.Report{Stop: r.Stop, Why: r.Why, Steps: r.Steps, Usage: r.Usage, Model: r.Model, Text: r.Text, Finish: r.Finish, Completed: r.Completed, Skipped: r.Skipped}
	if r.Err != nil {
		rep.Err = r.Err
	}
	return rep
}
