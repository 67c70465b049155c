package delivery

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/platform/config"
)

// Reports tells of each forge with a token whether the token can be read. It connects to no forge,
// and no token is in its result. A secret whose value is printed by a command has it run.
func (d *Deliverer) Reports(ctx context.Context) []admin.ForgeReport {
	out := make([]admin.ForgeReport, 0, len(d.accounts))
	for _, a := range d.accounts {
		r := admin.ForgeReport{Kind: a.Kind, Host: a.Server()}
		switch {
		case a.Token != "" || a.File == "" && a.Named == "":
			r.Token = "in a variable"
		case a.File != "":
			r.Token = "in a file"
		default:
			r.Token = "in the secret " + a.Named
		}
		if _, err := a.Secret(ctx, d.keyFor("", "")); err != nil {
			r.Reason, r.Fix = err.Error(), api.HintOf(err)
		} else {
			r.OK = true
		}
		out = append(out, r)
	}
	return out
}

// TokenSecrets lists the secrets with tokens that the configuration names, by host.
func TokenSecrets(forges []config.Forge) map[string]string {
	names := map[string]string{}
	for _, f := range forges {
		if f.TokenSecret != "" {
			names[f.Host] = f.TokenSecret
		}
	}
	return names
}
