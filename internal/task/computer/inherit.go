package computer

import (
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// inherited changes the request for a copy of a sandbox to what that may do now: its policy may have been replaced since it was created,
// and grants of secrets may have ended or been revoked. A grant ends for the copy when it ends for the sandbox.
func inherited(box api.CreateSandbox, of api.Sandbox, now time.Time) api.CreateSandbox {
	if of.Egress != api.EgressHost {
		box.Egress, box.Headers = &api.EgressPolicy{}, nil // nil would be the policy of the template
		if of.EgressPolicy != nil {
			*box.Egress = *of.EgressPolicy
		}
	}
	var kept []api.SecretGrant
	for _, g := range box.Secrets {
		i := slices.IndexFunc(of.Secrets, func(had api.SecretGrant) bool { return had.Name == g.Name && !had.Ended(now) })
		if i < 0 {
			continue
		}
		if end := of.Secrets[i].EndsAt; end != nil {
			left := end.Sub(now)
			if left < api.MinSecretLifetime {
				continue
			}
			g.LifetimeMS = left.Milliseconds()
		}
		kept = append(kept, g)
	}
	box.Secrets = kept
	return box
}

// usable names the secrets that the fork of a sandbox can use: those of the request that the sandbox may still use, and those that are in
// its header rules.
func usable(box api.CreateSandbox, of api.Sandbox, now time.Time) (names []string) {
	for _, g := range inherited(box, of, now).Secrets {
		names = append(names, g.Name)
	}
	if of.EgressPolicy != nil {
		for _, r := range of.EgressPolicy.Headers {
			names = append(names, secrets.Named(r)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
