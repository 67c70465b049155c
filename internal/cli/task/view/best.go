package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
)

// candidateOf is the number of the candidate that an event names; 0 for none.
func candidateOf(e api.Event) int {
	var of struct {
		Candidate int `json:"candidate"`
	}
	if json.Unmarshal(e.Data, &of) != nil {
		return 0
	}
	return of.Candidate
}

// roleTag is the tag of a line about a role, of a candidate if there are several.
func roleTag(role string, candidate int) string {
	if candidate > 0 {
		return fmt.Sprintf("candidate %d] [%s", candidate, human.Sanitize(role))
	}
	return human.Sanitize(role)
}

// candidate shows that a candidate begins, has ended, or was chosen or not.
func (p *Progress) candidate(c api.Candidate) {
	tag := fmt.Sprintf("candidate %d", c.N)
	switch {
	case c.State == api.CandidateRunning:
		p.Line(tag, "", "begins"+origin(c)+": "+human.Truncate(c.String(), 200))
	case c.Chosen:
		p.Line(tag, progress.Green, "chosen: "+human.Truncate(c.Why, 200))
	case p.decided:
		p.Line(tag, progress.Dim, "not chosen: "+human.Truncate(c.Why, 200))
	case c.State == api.CandidateEnded:
		colour, what := progress.Yellow, "ended: "+human.Truncate(resultOf(c)+human.Prefixed(": ", c.Why), 300)
		if c.Passed {
			colour = progress.Green
		}
		p.Line(tag, colour, what+" in "+human.Milliseconds(c.MS))
	}
}

// origin says where in a search a candidate is; empty if there is none.
func origin(c api.Candidate) string {
	switch {
	case c.Parent > 0:
		return fmt.Sprintf(" on level %d, from candidate %d", c.Level, c.Parent)
	case c.Level > 0:
		return fmt.Sprintf(" on level %d", c.Level)
	}
	return ""
}

// resultOf says in a few words what a candidate came to.
func resultOf(c api.Candidate) string {
	switch {
	case c.Passed:
		return fmt.Sprintf("the gate passed, %s in %s", human.Count(c.Lines, "changed line"), human.Count(c.Steps, "step"))
	case c.State != api.CandidateEnded:
		return string(c.State)
	case c.Rounds == 0:
		return "it did not work"
	}
	return "not verified"
}

// agreement says what the comparison of a candidate that passed came to; empty for another one.
func agreement(c api.Candidate) string {
	switch {
	case !c.Passed:
		return ""
	case c.Compared == 0:
		return "not compared"
	case c.Fails > 0:
		return fmt.Sprintf("agrees with %d of %d, fails the tests of %d", c.Agrees, c.Compared, c.Fails)
	}
	return fmt.Sprintf("agrees with %d of %d: passes their tests", c.Agrees, c.Compared)
}

// showCandidates adds the table of candidates.
func showCandidates(w io.Writer, all []api.Candidate) {
	if len(all) == 0 {
		return
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	search := all[0].Level > 0
	if search {
		fmt.Fprint(t, "LEVEL\tFROM\t")
	}
	fmt.Fprintln(t, "N\tGATE\tREGRESSIONS\tLINT\tLINES\tSTEPS\tTOKENS\tUSD\tTIME\tDIFFERS BY\tRESULT")
	for _, c := range all {
		gate := string(c.State)
		if c.State == api.CandidateEnded {
			if gate = map[bool]string{true: "passed", false: "not passed"}[c.Passed]; c.OldOnly {
				gate = "old failures only"
			}
		}
		usd := fmt.Sprintf("%.4f", c.CostUSD)
		if c.Unpriced > 0 {
			usd = "unknown"
		}
		result := c.Why
		if c.Chosen {
			result = "CHOSEN: " + result
		}
		if all := agreement(c); all != "" {
			result += "; " + all
		}
		lint := c.Lint
		if lint == "" {
			lint = "-"
		}
		if search {
			from := "-"
			if c.Parent > 0 {
				from = strconv.Itoa(c.Parent)
			}
			fmt.Fprintf(t, "%d\t%s\t", c.Level, from)
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", c.N, gate, c.Regressions, human.Sanitize(lint), c.Lines, c.Steps, c.Tokens, usd,
			human.Duration(time.Duration(c.MS)*time.Millisecond), human.Truncate(human.Sanitize(c.String()), 60), human.Truncate(human.Sanitize(human.FirstLine(result)), 140))
	}
	t.Flush()
	for i, line := range strings.Split(strings.TrimRight(b.String(), "\n"), "\n") {
		fmt.Fprintf(w, "%s\t%s\n", map[bool]string{true: "candidates"}[i == 0], strings.TrimRight(line, " "))
	}
}
