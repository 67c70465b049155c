package egress

import (
	"context"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

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
