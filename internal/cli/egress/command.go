package egress

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/egress/policy"
)

// Command is "hortus egress".
type Command struct {
	Allow  allowCmd  `cmd:"" help:"Allow a sandbox to connect to hosts, from now on."`
	Deny   denyCmd   `cmd:"" help:"Deny a sandbox connections to hosts, from now on."`
	Set    setCmd    `cmd:"" help:"Replace what a sandbox may connect to."`
	Ls     lsCmd     `cmd:"" help:"List the rules of a sandbox."`
	Log    logCmd    `cmd:"" help:"List decisions about outgoing connections, the newest first."`
	Asks   asksCmd   `cmd:"" help:"List connections that wait for a person."`
	Answer answerCmd `cmd:"" help:"Allow or deny a connection that waits."`
}

type oneSandbox struct {
	ID string `arg:"" complete:"sandboxes" help:"Sandbox ID, a unique prefix of it, or last for the newest sandbox that is alive."`
}

// find finds the sandbox of an argument.
func find(ctx context.Context, cl *client.Client, id string) (*client.Sandbox, error) {
	if id == app.Last {
		list, err := cl.Sandboxes.List(ctx, false)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return nil, api.Errorf(api.KindNotFound, "no sandbox is alive").WithHint("create one: hortus sandbox create")
		}
		id = string(list[0].ID)
	}
	s, err := cl.Sandboxes.Get(ctx, id)
	return s, app.Missing(err, "hortus sandbox ls --all")
}

// hosts are the arguments of allow and deny.
type hosts struct {
	Hosts []string `arg:"" name:"host" help:"Hosts: example.org, *.example.org:8080, tcp://db.example.org:5432, 10.0.0.0/8:22, example.org/v1/**, or a preset such as npm."`
}

type allowCmd struct {
	oneSandbox
	hosts
}

// Run adds rules that allow.
func (c *allowCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return add(ctx, a, cl, c.ID, c.Hosts, api.EgressAllow, false)
}

type denyCmd struct {
	oneSandbox
	hosts
	forks
}

// forks are the sandboxes that a change is for in addition.
type forks struct {
	Forks bool `help:"Change the forks of the sandbox too, and their forks."`
}

// Run adds rules that deny. Open connections that they match are closed.
func (c *denyCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return add(ctx, a, cl, c.ID, c.Hosts, api.EgressDeny, c.Forks)
}

// add puts rules before those of a sandbox.
func add(ctx context.Context, a *app.App, cl *client.Client, id string, specs []string, action api.EgressAction, forks bool) error {
	p, err := policy.ParseAll(specs)
	if err != nil {
		return err
	}
	if p.Ask || len(p.Presets) > 0 && action == api.EgressDeny {
		return api.Errorf(api.KindInvalid, "only hosts can be denied").WithHint("to replace the whole policy: hortus egress set %s VALUE...", id)
	}
	for i := range p.Rules {
		if p.Rules[i].Action == api.EgressDeny && action == api.EgressAllow {
			return api.Errorf(api.KindInvalid, "a host with ! is denied, not allowed").WithHint("hortus egress deny %s %s", id, p.Rules[i].Host)
		}
		p.Rules[i].Action = action
		if r := p.Rules[i]; action == api.EgressDeny && r.Ports == "" && len(r.Methods)+len(r.Paths) == 0 {
			p.Rules[i].Ports = "*" // as with "!" of --egress
		}
	}
	s, err := find(ctx, cl, id)
	if err != nil {
		return err
	}
	defer s.Close()
	if len(p.Presets) > 0 {
		row, err := usePresets(ctx, s, p)
		if err != nil {
			return err
		}
		return show(a, row)
	}
	if action == api.EgressAllow {
		row, err := s.AddEgressRules(ctx, p.Rules...)
		if err != nil {
			return err
		}
		return show(a, row)
	}
	return changeAll(ctx, a, s, forks, func(s *client.Sandbox) (api.Sandbox, error) { return s.AddEgressRules(ctx, p.Rules...) })
}

// changeAll changes a sandbox, with its forks if that is wanted, and shows its rules.
func changeAll(ctx context.Context, a *app.App, s *client.Sandbox, forks bool, change func(*client.Sandbox) (api.Sandbox, error)) error {
	rows, err := app.ChangeLineage(ctx, a, s, forks, change)
	if err != nil {
		return err
	}
	return show(a, rows[0])
}

// usePresets adds presets, and rules before the others. A policy that another caller changes at
// the same time is replaced.
func usePresets(ctx context.Context, s *client.Sandbox, add api.EgressPolicy) (api.Sandbox, error) {
	row, err := s.Info(ctx)
	if err != nil {
		return row, err
	}
	p := api.EgressPolicy{}
	if row.EgressPolicy != nil {
		p = *row.EgressPolicy
	}
	for _, name := range add.Presets {
		if !slices.Contains(p.Presets, name) {
			p.Presets = append(slices.Clone(p.Presets), name)
		}
	}
	p.Rules = append(slices.Clone(add.Rules), p.Rules...)
	return s.SetEgress(ctx, p)
}

type setCmd struct {
	oneSandbox
	Values []string `arg:"" name:"value" help:"Values of --egress: none, ask, a preset, or hosts."`
	Header []string `sep:"none" placeholder:"HOST NAME: VALUE" help:"Header of the sandbox's HTTPS requests to HOST, as for sandbox create. Without it no header is set from now on. Repeatable."`
	forks
}

// Run replaces the policy.
func (c *setCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	p, err := policy.ParseAll(c.Values)
	if err != nil {
		return err
	}
	if p.Headers, err = flags.Headers("--header", c.Header); err != nil {
		return err
	}
	s, err := find(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	return changeAll(ctx, a, s, c.Forks, func(s *client.Sandbox) (api.Sandbox, error) { return s.SetEgress(ctx, p) })
}

type lsCmd struct{ oneSandbox }

// Run lists the rules.
func (c *lsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	s, err := find(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	row, err := s.Info(ctx)
	if err != nil {
		return err
	}
	return show(a, row)
}

// show prints the rules of a sandbox.
func show(a *app.App, row api.Sandbox) error {
	p := api.EgressPolicy{}
	if row.EgressPolicy != nil {
		p = *row.EgressPolicy
	}
	if a.Flags.JSON {
		return a.JSON(struct {
			Sandbox api.SandboxID     `json:"sandbox"`
			Egress  string            `json:"egress"`
			Policy  api.EgressPolicy  `json:"policy"`
			Ceiling *api.EgressPolicy `json:"ceiling,omitempty"`
		}{row.ID, row.Egress, p, row.MaxEgress})
	}
	w := a.Table()
	fmt.Fprintln(w, "RULE\tACTION\tHOST\tFROM")
	for i, r := range p.Rules {
		from := r.Source
		if from == "" {
			from = "-"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", i+1, human.Sanitize(string(r.Action)), human.Sanitize(strings.TrimPrefix(policy.Format(r), "!")), human.Sanitize(from))
	}
	rest := "denied"
	switch {
	case row.Egress == api.EgressHost:
		rest = "allowed: it shares the network of this machine"
	case p.Ask:
		rest = "asked: hortus egress asks"
	}
	fmt.Fprintf(w, "-\t%s\tanything else\t-\n", rest)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range p.Headers {
		for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
			a.Note("header for %s:%d: %s: %s", human.Sanitize(r.Host), r.Port, human.Sanitize(name), human.Truncate(r.Headers[name], 100))
		}
	}
	if row.MaxEgress != nil {
		a.Note("the ceiling of the API key limits these rules: %s", policy.Summary(*row.MaxEgress))
	}
	return nil
}

type asksCmd struct{}

// Run lists the open questions.
func (c *asksCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	list, err := cl.Egress.Asks(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 && !a.Flags.JSON {
		a.Note("no connection waits")
	}
	return app.ShowList(a, list, "ID SANDBOX HOST PORT LEFT COMMAND", func(q api.EgressAsk) []string {
		d := q.Decision
		return []string{human.Sanitize(q.ID), human.Sanitize(string(d.Sandbox)), human.Truncate(d.Host, 60), fmt.Sprint(d.Port),
			human.Duration(time.Until(q.Expires)), commands(d, 60)}
	})
}

type answerCmd struct {
	ID       string `arg:"" help:"ID of the question, from hortus egress asks."`
	Action   string `arg:"" enum:"allow,deny" help:"allow or deny."`
	Remember bool   `help:"Add a rule to the sandbox, so that it does not ask for this host and port again."`
}

// Run answers a question.
func (c *answerCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	if err := cl.Egress.Answer(ctx, c.ID, api.AnswerEgressAsk{Action: api.EgressAction(c.Action), Remember: c.Remember}); err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(struct {
			ID     string `json:"id"`
			Action string `json:"action"`
		}{c.ID, c.Action})
	}
	a.Note("%s: %s", c.ID, map[string]string{"allow": "allowed", "deny": "denied"}[c.Action])
	return nil
}

// commands shows the commands of a decision.
func commands(d api.EgressDecision, width int) string {
	switch len(d.Commands) {
	case 0:
		return "-"
	case 1:
		return human.Truncate(d.Commands[0], width)
	}
	return human.Truncate(fmt.Sprintf("%s (or %d others)", d.Commands[0], len(d.Commands)-1), width)
}

// maxDenied is the maximum number of refused connections that are shown.
const maxDenied = 5

// NoteDenied shows the connections that a filter selects and that were denied. allow returns what
// allows one, as a person types it.
func NoteDenied(ctx context.Context, a *app.App, cl *client.Client, f api.EgressFilter, allow func(target string) string) {
	if a.Flags.Quiet || a.Flags.JSON {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	f.Result = api.EgressDenied
	list, _, err := cl.Egress.Page(ctx, f, api.PageRequest{Limit: 50})
	if err != nil {
		return // an older daemon; it is only a hint
	}
	seen := map[string]bool{}
	for _, d := range list {
		if seen[d.Host] || d.Host == "" {
			continue
		}
		if len(seen) == maxDenied {
			a.Note("hortus: more connections were denied; to list them: hortus egress log --sandbox %s --result denied", f.Sandbox)
			return
		}
		seen[d.Host] = true
		target := human.Host(d.Host, d.Port)
		next := "To allow it: " + allow(target)
		if d.Hint != "" && !strings.HasPrefix(d.Hint, "hortus egress allow ") {
			next = d.Hint // another rule would not allow it, as for a secret in the wrong place
		}
		a.Note("hortus: a connection to %s was denied: %s. %s", target, d.Reason, next)
	}
}

type logCmd struct {
	Sandbox string     `complete:"sandboxes" placeholder:"ID" help:"Sandbox ID, a unique prefix of it, or last."`
	Result  string     `placeholder:"RESULT" enum:"allowed,denied,failed,waiting,alarm," default:"" help:"Result: allowed, denied, failed, waiting or alarm."`
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
