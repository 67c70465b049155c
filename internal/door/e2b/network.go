package e2b

import (
	"encoding/json"
	"net/http"
	"net/netip"

	"hortus.dev/api"
)

// networkConfig is what a client asks of a sandbox's network, when it is made.
type networkConfig struct {
	AllowOut      []string        `json:"allowOut"`
	DenyOut       []string        `json:"denyOut"`
	Rules         json.RawMessage `json:"rules"`
	EgressProxy   json.RawMessage `json:"egressProxy"`
	PublicTraffic *bool           `json:"allowPublicTraffic"`
	MaskHost      *string         `json:"maskRequestHost"`
	HTTPSPorts    []int           `json:"httpsPorts"`
}

// networkUpdate replaces what a sandbox may reach.
type networkUpdate struct {
	Internet    *bool           `json:"allow_internet_access"`
	AllowOut    []string        `json:"allowOut"`
	DenyOut     []string        `json:"denyOut"`
	Rules       json.RawMessage `json:"rules"`
	EgressProxy json.RawMessage `json:"egressProxy"`
}

// egress is the part about what goes out.
func (c *networkConfig) egress() networkUpdate {
	if c == nil {
		return networkUpdate{}
	}
	return networkUpdate{AllowOut: c.AllowOut, DenyOut: c.DenyOut, Rules: c.Rules, EgressProxy: c.EgressProxy}
}

// check refuses what Hortus never has, about what comes in.
func (c *networkConfig) check() error {
	switch {
	case c == nil:
		return nil
	case c.MaskHost != nil && *c.MaskHost != "":
		return refused("network.maskRequestHost", "requests reach a sandbox with the client's Host header")
	case len(c.HTTPSPorts) > 0:
		return refused("network.httpsPorts", "ports support plain HTTP only")
	}
	return c.egress().never()
}

// never refuses what Hortus never has, about what goes out.
func (u networkUpdate) never() error {
	switch {
	case len(u.AllowOut) > 0:
		return refused("network.allowOut", "destinations cannot be allowed: sandboxes have no outgoing network")
	case isSet(u.Rules) && string(u.Rules) != "{}":
		return refused("network.rules", "requests cannot be rewritten: sandboxes have no outgoing network")
	case isSet(u.EgressProxy):
		return refused("network.egressProxy", "sandboxes have no outgoing network")
	}
	for _, s := range u.DenyOut {
		if _, err := netip.ParsePrefix(s); err == nil {
			continue
		}
		if _, err := netip.ParseAddr(s); err != nil {
			return api.Errorf(api.KindInvalid, `option "network.denyOut": %.60q is not an IP address or CIDR range`, s)
		}
	}
	return nil
}

// restricts reports whether a client requested something that depends on the sandbox.
func (u networkUpdate) restricts() bool { return u.Internet != nil || len(u.DenyOut) > 0 }

// check reports whether a sandbox with that egress is what was requested. From nearly
// every sandbox nothing goes out; one that shares this machine's network cannot be
// held back.
func (u networkUpdate) check(egress string) error {
	open := egress != api.EgressNone
	switch {
	case u.Internet != nil && *u.Internet && !open:
		return refused("allow_internet_access", "sandboxes have a loopback interface only, and it cannot be opened")
	case u.Internet != nil && !*u.Internet && open:
		return refused("allow_internet_access", "a sandbox with this isolation shares the network of its host, which cannot be restricted")
	case len(u.DenyOut) > 0 && open:
		return refused("network.denyOut", "a sandbox with this isolation shares the network of its host, which cannot be restricted")
	}
	return nil
}

// setNetwork replaces what a sandbox may reach, where what is requested is what holds
// already.
func (d sandboxes) setNetwork(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
	var in networkUpdate
	if err := decodeAny(w, r, &in); err != nil {
		return err
	}
	if err := in.never(); err != nil {
		return err
	}
	return done(w, in.check(s.Egress))
}
