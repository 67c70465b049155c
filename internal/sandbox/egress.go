package sandbox

import "hortus.dev/api"

// Egress is what a sandbox may connect to outside of itself. The zero value denies
// everything. A backend refuses with api.KindUnsupported what it cannot enforce.
type Egress struct {
	// Host is true if the sandbox has the network of its host, without any restriction.
	// It is the only policy of a backend without api.CapNoNetwork.
	Host bool
}

// EgressOf returns the policy that a backend with this report enforces by default: deny
// everything if it can.
func EgressOf(r api.BackendReport) Egress {
	_, denies := r.Has(api.CapNoNetwork)
	return Egress{Host: !denies}
}

// String returns the policy as api.Sandbox shows it.
func (e Egress) String() string {
	if e.Host {
		return api.EgressHost
	}
	return api.EgressNone
}
