package secret

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
)

type usesCmd struct {
	Name    string     `arg:"" optional:"" name:"name" complete:"secrets" help:"Name of the secret (default: all secrets)."`
	Since   flags.Span `placeholder:"DURATION" help:"Maximum age of the uses, for example 1h or 7d."`
	Refused bool       `help:"List only requests that were refused: a placeholder was where it may not be, or a budget was used up."`
	Limit   int        `default:"100" placeholder:"N" help:"Maximum number of uses (default 100); 0 is no limit."`
}

// Help returns what the first line of help does not.
func (usesCmd) Help() string {
	return `With --json each use is one line. Examples:

    hortus secret uses --refused --since 7d
    hortus secret uses crm --json --limit 0 > uses.jsonl`
}

// Run lists uses.
func (c *usesCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	if c.Limit < 0 {
		return api.Errorf(api.KindInvalid, "--limit: %d is negative", c.Limit)
	}
	f := secrets.UseFilter{Secret: c.Name, Refused: c.Refused}
	if c.Since > 0 {
		f.Since = time.Now().Add(-time.Duration(c.Since))
	}
	lines := json.NewEncoder(a.Env.Stdout)
	lines.SetEscapeHTML(false)
	w := a.Table()
	n := 0
	for u, err := range cl.Secrets.Uses(ctx, f) {
		if err != nil {
			return err
		}
		if n++; c.Limit > 0 && n > c.Limit {
			break
		}
		if a.Flags.JSON {
			if err := lines.Encode(u); err != nil {
				return api.Errorf(api.KindInternal, "write the answer: %w", err)
			}
			continue
		}
		if n == 1 {
			fmt.Fprintln(w, "TIME\tSECRET\tSANDBOX\tRESULT\tREQUEST\tDETAIL\tCOMMAND")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", u.At.Local().Format(time.DateTime), cmp.Or(human.Sanitize(u.Secret), "-"), human.Truncate(sandbox(u), 12),
			result(u), human.Truncate(request(u), 60), human.Truncate(detail(u), 80), human.Truncate(commands(u), 40))
	}
	if n == 0 && !a.Flags.JSON {
		return c.none(ctx, a, cl)
	}
	return w.Flush()
}

// none says that there are no uses, unless there is no such secret either.
func (c *usesCmd) none(ctx app.Context, a *app.App, cl *client.Client) error {
	what := "no use of a secret is recorded"
	if c.Name != "" {
		if _, err := cl.Secrets.Get(ctx, c.Name); err != nil {
			return app.Missing(err, "hortus secret ls")
		}
		what = "no use of " + c.Name + " is recorded"
	}
	if c.Refused || c.Since > 0 {
		what += " for these flags"
	}
	a.Note("%s", what)
	return nil
}

func result(u secrets.Use) string {
	switch {
	case u.Missed > 0:
		return "missing"
	case u.Budget != "":
		return "budget"
	case u.Refused != "":
		return "refused"
	case u.Broken:
		return "broken off"
	}
	return "sent"
}

// request shows the request of a use.
func request(u secrets.Use) string {
	if u.Host == "" {
		return "-"
	}
	port := ""
	if !(u.Scheme == "https" && u.Port == 443 || u.Scheme == "http" && u.Port == 80 || u.Port == 0) {
		port = fmt.Sprint(":", u.Port)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s://%s%s%s", u.Method, u.Scheme, u.Host, port, u.Path))
}

// sandbox shows who used a secret.
func sandbox(u secrets.Use) string {
	if u.Purpose != "" {
		return "the daemon"
	}
	return string(u.Sandbox)
}

// ofDaemon shows what a use by the daemon was for.
func ofDaemon(u secrets.Use) string {
	out := u.Purpose
	if u.For != "" {
		out += ", for " + u.For
	}
	if u.Task != "" {
		out += ", task " + string(u.Task)
	}
	return out
}

// detail shows why a use was refused, or what became of it.
func detail(u secrets.Use) string {
	if u.Refused != "" {
		return u.Refused
	}
	if u.Purpose != "" {
		return ofDaemon(u)
	}
	out := []string{fmt.Sprintf("binding %d", u.Binding)}
	switch {
	case u.Header != "":
		out[0] = "header rule, " + u.Header
	case u.Broken:
		out[0] = "the server broke the answer off"
	}
	if u.Status != 0 {
		out = append(out, fmt.Sprintf("status %d", u.Status))
	}
	if u.Sent+u.Received > 0 {
		out = append(out, human.Size(u.Sent)+" sent", human.Size(u.Received)+" received")
	}
	if u.Usage != nil {
		out = append(out, formatUsage(*u.Usage))
	}
	return strings.Join(out, ", ")
}

func commands(u secrets.Use) string {
	switch len(u.Commands) {
	case 0:
		return "-"
	case 1:
		return u.Commands[0]
	}
	return fmt.Sprintf("%s (or %d others)", human.Truncate(u.Commands[0], 25), len(u.Commands)-1)
}

// parseBudgets reads --budget.
func parseBudgets(texts []string) (all []secrets.Budget, err error) {
	for _, text := range texts {
		b, err := secrets.ParseBudget(text)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// formatBudgets writes budgets for a column.
func formatBudgets(all []secrets.Budget) string {
	if len(all) == 0 {
		return "-"
	}
	texts := make([]string, len(all))
	for i, b := range all {
		texts[i] = b.String()
	}
	return strings.Join(texts, " ")
}

// showBudgets shows budgets with what was used of them.
func showBudgets(s secrets.Secret, row func(name, value string)) {
	for _, b := range s.Budgets {
		row("budget", b.String()+usedOf(b, s.Spent))
	}
	if s.Spent == nil {
		return
	}
	row("used today", formatAmounts(s.Spent.Today))
	row("used in total", formatAmounts(s.Spent.Total))
	for _, t := range s.Spent.Tasks {
		row("used by", t.Task+": "+formatAmounts(t.Amounts))
	}
}

// usedOf is what was used of a budget.
func usedOf(b secrets.Budget, s *secrets.Spent) string {
	if s == nil {
		return ""
	}
	used := func(a secrets.Amounts) string {
		n := a.In(b.Unit)
		if n >= b.Limit() {
			return fmt.Sprintf("used up: %s", secrets.FormatAmount(b.Unit, n))
		}
		return fmt.Sprintf("%s used, %s left", secrets.FormatAmount(b.Unit, n), secrets.FormatAmount(b.Unit, b.Limit()-n))
	}
	switch b.Per {
	case secrets.PerDay:
		return ": " + used(s.Today)
	case secrets.PerTotal:
		return ": " + used(s.Total)
	}
	if len(s.Tasks) == 0 {
		return ": not used"
	}
	most := s.Tasks[0]
	for _, t := range s.Tasks {
		if t.In(b.Unit) > most.In(b.Unit) {
			most = t
		}
	}
	return fmt.Sprintf(": %s by %s", used(most.Amounts), most.Task)
}

func formatAmounts(a secrets.Amounts) string {
	return fmt.Sprintf("%d requests, %d tokens, %s", a.Requests, a.Tokens, secrets.FormatAmount(secrets.USD, a.MicroUSD))
}

// formatUsage writes what a request to a model used.
func formatUsage(u secrets.Usage) string {
	text := fmt.Sprintf("%s: %d tokens in, %d out, %s", cmp.Or(u.Model, "a model"), u.InputTokens, u.OutputTokens, secrets.FormatAmount(secrets.USD, u.MicroUSD))
	if u.PricedAs != "" {
		text += " at the price of " + u.PricedAs
	}
	if u.Estimated {
		text += ", estimated"
	}
	return text
}
