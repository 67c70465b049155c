package task

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/egress"
	"hortus.dev/internal/platform/language"
)

// noteDenied shows the outgoing connections that were denied to the last attempt of a program
// that was not verified, and the flag of its phase that allows them.
func noteDenied(ctx context.Context, a *app.App, c *client.Client, t api.Task) {
	if t.Outcome == api.OutcomeVerified || len(t.Attempts) == 0 {
		return
	}
	last := t.Attempts[len(t.Attempts)-1]
	if last.Sandbox == "" {
		return
	}
	egress.NoteDenied(ctx, a, c, api.EgressFilter{Sandbox: last.Sandbox}, func(target string) string {
		if last.Result == nil || last.Result.Phase != api.PhaseInstall {
			return "--egress " + target
		}
		// A flag replaces the default, which is the registry of the language.
		if l, ok := language.Of(last.Artifact.Language); ok && l.Registry != "" && t.Create.SetupEgress == nil {
			target = l.Registry + "," + target
		}
		return "--setup-egress " + target
	})
}
