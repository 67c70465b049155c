package sandbox

import (
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

type sandboxSecretCmd struct {
	Rm sandboxSecretRmCmd `cmd:"" help:"Take secrets from a sandbox, for good, with the hosts that are allowed for them."`
}

type sandboxSecretRmCmd struct {
	oneSandbox
	Names []string `arg:"" name:"name" complete:"secrets" help:"Names of secrets."`
}

// Run takes secrets from a sandbox.
func (c *sandboxSecretRmCmd) Run(ctx app.Context, a *app.App) error {
	s, err := find(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	var row api.Sandbox
	for _, name := range c.Names {
		if row, err = s.RevokeSecret(ctx, name); err != nil {
			return err
		}
		if !a.Flags.JSON {
			a.Note("%s may not use %s any more; what it has sent stays sent", s.ID(), name)
		}
	}
	if a.Flags.JSON {
		return a.JSON(row)
	}
	return nil
}

// grantText shows a grant of a secret.
func grantText(g api.SecretGrant, now time.Time) string {
	text := human.Sanitize(g.Name) + " in " + human.Sanitize(g.Variable())
	switch {
	case g.EndsAt == nil:
		return text
	case g.Revoked:
		return text + ", taken at " + g.EndsAt.Format(time.RFC3339)
	case g.Ended(now):
		return text + ", ended at " + g.EndsAt.Format(time.RFC3339)
	}
	return text + ", until " + g.EndsAt.Format(time.RFC3339)
}
