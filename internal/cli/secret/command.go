package secret

import (
	"fmt"
	"strings"
	"time"

	"hortus.dev/api/secrets"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

// Command is "hortus secret".
type Command struct {
	Set  setCmd  `cmd:"" help:"Create or replace a secret. Its value is read from standard input, or from a source."`
	Ls   lsCmd   `cmd:"" help:"List secrets. Their values are never shown."`
	Show showCmd `cmd:"" help:"Show a secret, where it may be used and when it was; not its value."`
	Rm   rmCmd   `cmd:"" help:"Remove secrets."`
	Uses usesCmd `cmd:"" help:"List the requests that secrets were used in, and refused ones, the newest first."`
}

type one struct {
	Name string `arg:"" name:"name" complete:"secrets" help:"Name of the secret."`
}

type lsCmd struct{}

// Run lists secrets.
func (lsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	list, err := cl.Secrets.List(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 && !a.Flags.JSON {
		a.Note("there is no secret; to set one: hortus secret set NAME --to 'https://api.example.org/**'")
		return nil
	}
	return app.ShowList(a, list, "NAME SOURCE USED-IN BUDGETS USES LAST-USE SET", func(s secrets.Secret) []string {
		last := "never"
		if s.UsedAt != nil {
			last = human.Duration(time.Since(*s.UsedAt)) + " ago"
		}
		return []string{human.Sanitize(s.Name), human.Truncate(source(s), 40), human.Truncate(usedIn(s), 70), human.Truncate(formatBudgets(s.Budgets), 40),
			fmt.Sprint(s.Uses), last, human.Duration(time.Since(s.UpdatedAt)) + " ago"}
	})
}

// source shows where the value of a secret is from.
func source(s secrets.Secret) string {
	switch s.Source {
	case secrets.Stored:
		return "stored"
	case secrets.Variable:
		return "variable " + s.From
	case secrets.File:
		return "file " + s.From
	case secrets.Command:
		return "command " + strings.Join(s.Command, " ")
	}
	return string(s.Source)
}

// unbound is shown of a secret without bindings.
func unbound(s secrets.Secret) string {
	if s.ForHeaders {
		return "header rules, for any host"
	}
	return "the daemon alone"
}

// usedIn shows the first binding of a secret.
func usedIn(s secrets.Secret) string {
	switch len(s.Bindings) {
	case 0:
		return unbound(s)
	case 1:
		return FormatBinding(s.Bindings[0])
	}
	return fmt.Sprintf("%s (and %d more)", human.Truncate(FormatBinding(s.Bindings[0]), 55), len(s.Bindings)-1)
}

type showCmd struct{ one }

// Run shows a secret.
func (c *showCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	s, err := cl.Secrets.Get(ctx, c.Name)
	if err != nil {
		return app.Missing(err, "hortus secret ls")
	}
	return show(a, s)
}

func show(a *app.App, s secrets.Secret) error {
	return app.ShowOne(a, s, func(row func(name, value string)) {
		row("secret", s.Name)
		row("account", s.Account)
		row("source", source(s))
		row("sent as", string(s.Signer))
		if s.LifetimeMS > 0 {
			row("kept for", human.Duration(time.Duration(s.LifetimeMS)*time.Millisecond))
		}
		for _, b := range s.Bindings {
			row("used in", FormatBinding(b))
		}
		if len(s.Bindings) == 0 {
			row("used in", unbound(s))
		}
		showBudgets(s, row)
		row("created", s.CreatedAt.Format(time.RFC3339))
		row("set", s.UpdatedAt.Format(time.RFC3339))
		row("uses", fmt.Sprint(s.Uses))
		if s.UsedAt != nil {
			row("last use", s.UsedAt.Format(time.RFC3339))
		}
	})
}

type rmCmd struct {
	Names []string `arg:"" name:"name" complete:"secrets" help:"Names of secrets."`
}

// Run removes secrets.
func (c *rmCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return app.Each(ctx, a, c.Names, "hortus secret ls", cl.Secrets.Remove, func(s secrets.Secret) string {
		return fmt.Sprintf("%s is removed; no request is sent with it any more", s.Name)
	})
}
