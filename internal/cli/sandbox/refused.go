package sandbox

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

// maxRefused is the maximum number of refused connections that are shown.
const maxRefused = 5

// noteRefused shows the outgoing connections that were denied since a command began, and how to
// allow them: they may be why it failed. fresh is true if the sandbox is the command's alone.
func noteRefused(ctx context.Context, a *app.App, cl *client.Client, id api.SandboxID, since time.Time, fresh bool) {
	if a.Flags.Quiet || a.Flags.JSON {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	// The clock of another machine may differ a little.
	f := api.EgressFilter{Sandbox: id, Result: api.EgressDenied, Since: since.Add(-time.Minute)}
	if fresh {
		f.Since = time.Time{}
	}
	list, _, err := cl.Egress.Page(ctx, f, api.PageRequest{Limit: 50})
	if err != nil {
		return // an older daemon; it is only a hint
	}
	seen := map[string]bool{}
	for _, d := range list {
		if seen[d.Host] || d.Host == "" {
			continue
		}
		if len(seen) == maxRefused {
			a.Note("hortus: more connections were denied; to list them: hortus egress log --sandbox %s --result denied", id)
			return
		}
		seen[d.Host] = true
		target := human.Host(d.Host, d.Port)
		allow := "hortus egress allow " + string(id) + " " + target
		if fresh {
			allow = "--egress " + target
		}
		a.Note("hortus: a connection to %s was denied: %s. To allow it: %s", target, d.Reason, allow)
	}
}
