package check

import (
	"strconv"
	"strings"

	"hortus.dev/api"
)

// policy is what the sandboxes of a run may reach. Everything else is an attack. A weak one
// allows more.
func (s *Servers) policy(weak bool) api.EgressPolicy {
	ports := func(ps ...int) string {
		var out []string
		for _, p := range ps {
			out = append(out, strconv.Itoa(p))
		}
		return strings.Join(out, ",")
	}
	allow := func(r api.EgressRule) api.EgressRule { r.Action = api.EgressAllow; return r }
	name := s.names.open
	rules := []api.EgressRule{
		allow(api.EgressRule{Host: name, Ports: ports(s.web, s.tls), Private: true}),
		allow(api.EgressRule{Host: name, Ports: ports(s.raw), Class: api.EgressTCP, Private: true}),
		allow(api.EgressRule{Host: name, Ports: ports(s.pass), Class: api.EgressPassthrough, Private: true}),
		allow(api.EgressRule{Host: name, Ports: ports(s.path, s.naiveCL, s.naiveTE), Methods: []string{"GET", "POST"}, Paths: []string{"/ok/**"}, Private: true}),
		// Rules that only the check of the address can refuse.
		allow(api.EgressRule{Host: name, Ports: ports(s.public)}),
		allow(api.EgressRule{Host: "169.254.0.0/16", Ports: "80"}),
		allow(api.EgressRule{Host: "127.0.0.0/8", Ports: ports(s.public)}),
		allow(api.EgressRule{Host: "*." + labelParent}),
	}
	if s.names.own.IsValid() {
		rules = append(rules, allow(api.EgressRule{Host: s.names.own.String(), Ports: ports(s.own), Class: api.EgressTCP, Private: true}))
	}
	if s.lies {
		rules = append(rules,
			allow(api.EgressRule{Host: "*." + rebindName, Ports: ports(s.web)}),
			allow(api.EgressRule{Host: privateName, Ports: ports(s.web), Private: true}),
			allow(api.EgressRule{Host: metaName, Ports: "80", Private: true}),
			allow(api.EgressRule{Host: mappedName, Ports: ports(s.web)}),
			allow(api.EgressRule{Host: natName, Ports: ports(s.web)}),
		)
	}
	if weak {
		for _, host := range []string{name, "127.0.0.0/8", "*." + deniedName, s.names.own.String()} {
			if host != "invalid IP" {
				rules = append([]api.EgressRule{allow(api.EgressRule{Host: host, Ports: "*", Class: api.EgressTCP, Private: !strings.HasPrefix(host, "*")})}, rules...)
			}
		}
	}
	return api.EgressPolicy{Rules: rules}
}
