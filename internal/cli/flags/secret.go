package flags

import (
	"strings"

	"hortus.dev/api"
)

// Secrets turns [VAR=]NAME[@TIME] into grants.
func Secrets(flag string, values []string) (out []api.SecretGrant, err error) {
	for _, v := range values {
		var g api.SecretGrant
		var limited bool
		var lifetime string
		if variable, rest, ok := strings.Cut(v, "="); ok {
			g.Env, v = variable, rest
		}
		g.Name, lifetime, limited = strings.Cut(v, "@")
		if !api.ValidSecretName(g.Name) {
			return nil, api.Errorf(api.KindInvalid, "%s: %.80q is not the name of a secret", flag, g.Name).WithHint("list them: hortus secret ls")
		}
		if limited {
			var d Duration
			if err := d.UnmarshalText([]byte(lifetime)); err != nil || d.Milliseconds() == 0 {
				return nil, api.Errorf(api.KindInvalid, "%s: %.40q is not how long the secret %s may be used", flag, lifetime, g.Name).
					WithHint("write for example %s@30m or %s@2h", g.Name, g.Name)
			}
			g.LifetimeMS = d.Milliseconds()
		}
		out = append(out, g)
	}
	if err := api.CheckSecretGrants(out); err != nil {
		return nil, api.Errorf(api.KindInvalid, "%s: %w", flag, err)
	}
	return out, nil
}
