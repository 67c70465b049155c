package sandbox

import "hortus.dev/api"

// Report is the report of a backend: start is how the start of a sandbox went, and abilities are the others. Without a start there is
// nothing else: each has its reason then.
func Report(backend string, start api.Ability, abilities []api.Ability) api.BackendReport {
	r := api.BackendReport{Backend: backend, Abilities: []api.Ability{start}}
	for _, a := range abilities {
		if !start.OK && a.OK {
			a = api.Ability{Capability: a.Capability, Reason: start.Reason, Fix: start.Fix}
			if a.Capability == api.CapEgress {
				a.Grade = api.EgressByNobody
			}
		}
		r.Abilities = append(r.Abilities, a)
	}
	return r
}
