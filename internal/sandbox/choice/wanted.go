package choice

import (
	"hortus.dev/api"
)

// Wanted is an isolation, and where it is configured.
type Wanted struct {
	// Isolation names a backend or is Auto; empty for none.
	Isolation string
	// Default says whose default it is, such as "the API key"; empty if the request names it. Change says how to change that.
	Default, Change string
}

// First returns the first one that names an isolation; Auto if none does.
func First(all ...Wanted) Wanted {
	for _, w := range all {
		if w.Isolation != "" {
			return w
		}
	}
	return Wanted{Isolation: Auto}
}

// auto reports whether the strongest backend is wanted.
func (w Wanted) auto() bool { return w.Isolation == "" || w.Isolation == Auto }

// why says why a backend was chosen.
func (w Wanted) why() string {
	if w.Default == "" {
		return "requested by name"
	}
	return "default of " + w.Default
}

// Explain adds to an error of a default where it is configured. A request that names its isolation knows that.
func (w Wanted) Explain(err error) error {
	if err == nil || w.Default == "" || w.auto() {
		return err
	}
	hint := api.HintOf(err)
	if hint != "" {
		hint += "; or "
	}
	return api.Errorf(api.KindOf(err), "isolation %.64q is the default of %s: %w", w.Isolation, w.Default, err).
		WithHint("%suse another isolation for this request (--isolation NAME), or change the default: %s", hint, w.Change)
}
