package egress

import (
	"encoding/json"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
)

type logCmd struct {
	Sandbox string     `complete:"sandboxes" placeholder:"ID" help:"Sandbox ID, a unique prefix of it, or last."`
	Result  string     `placeholder:"RESULT" enum:"allowed,denied,failed,waiting," default:"" help:"Result: allowed, denied, failed or waiting."`
	To      string     `placeholder:"NAME" help:"Host name, or *.NAME for the names below it."`
	Since   flags.Span `placeholder:"DURATION" help:"Maximum age of the decisions, for example 1h or 7d."`
	Limit   int        `default:"100" placeholder:"N" help:"Maximum number of decisions (default 100); 0 is no limit."`
}

// Help returns what the first line of help does not.
func (logCmd) Help() string {
	return `With --json each decision is one line. Examples:

    hortus egress log --result denied --since 1h
    hortus egress log --sandbox last
    hortus egress log --json --limit 0 > egress.jsonl`
}

// Run lists decisions.
func (c *logCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	if c.Limit < 0 {
		return api.Errorf(api.KindInvalid, "--limit: %d is negative", c.Limit)
	}
	f := api.EgressFilter{Result: api.EgressResult(c.Result), Host: c.To}
	if c.Since > 0 {
		f.Since = time.Now().Add(-time.Duration(c.Since))
	}
	if c.Sandbox != "" {
		s, err := find(ctx, cl, c.Sandbox)
		if err != nil {
			return err
		}
		s.Close()
		f.Sandbox = s.ID()
	}
	lines := json.NewEncoder(a.Env.Stdout)
	lines.SetEscapeHTML(false)
	w := a.Table()
	if !a.Flags.JSON {
		fmt.Fprintln(w, "TIME\tSANDBOX\tRESULT\tHOST\tDETAIL\tCOMMAND")
	}
	n := 0
	for d, err := range cl.Egress.All(ctx, f) {
		if err != nil {
			return err
		}
		if n++; c.Limit > 0 && n > c.Limit {
			break
		}
		if a.Flags.JSON {
			if err := lines.Encode(d); err != nil {
				return api.Errorf(api.KindInternal, "write the answer: %w", err)
			}
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", d.At.Local().Format(time.DateTime), human.Truncate(string(d.Sandbox), 12),
			human.Sanitize(string(d.Result)), human.Truncate(Target(d), 60), human.Truncate(Detail(d), 80), commands(d, 40))
	}
	return w.Flush()
}

// Target shows the host and port of a decision.
func Target(d api.EgressDecision) string {
	t := d.Host
	if d.Port != 0 {
		t = fmt.Sprintf("%s:%d", d.Host, d.Port)
	}
	if d.Method != "" {
		t = d.Method + " " + t + d.Path
	}
	return t
}

// Detail shows why, or what became of it.
func Detail(d api.EgressDecision) string {
	out := d.Reason
	if out == "" {
		out = d.Rule
	}
	if d.Status != 0 {
		out = fmt.Sprintf("status %d, %s", d.Status, out)
	}
	if d.Cached {
		out += ", from the package cache"
	}
	if d.Sent+d.Received > 0 {
		out = fmt.Sprintf("%s, %s sent, %s received", out, human.Size(d.Sent), human.Size(d.Received))
	}
	if d.Count > 1 {
		out = fmt.Sprintf("%s (%d times)", out, d.Count)
	}
	return out
}
