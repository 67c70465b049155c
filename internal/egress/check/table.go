package check

import "slices"

// Attacks is the table, in the order of running.
func Attacks() []Attack {
	return slices.Concat(dnsAttacks(), addressAttacks(), lyingAttacks(), packetAttacks(), webAttacks(), tlsAttacks(), proxyAttacks(), smuggleAttacks(), hostAttacks(), floodAttacks())
}

// Reasons why an attack is not applicable.

func needsResolver(s *stage) string {
	if !s.srv.lies {
		return "needs a resolver under the test's control; Hortus's own tests have one"
	}
	return ""
}

func needsName(s *stage) string {
	if s.srv.names.proxyOnly {
		return "/etc/hosts has no name for this machine but localhost"
	}
	return ""
}

func needsOwn(s *stage) string {
	if !s.srv.names.own.IsValid() {
		return "this machine has no IPv4 address but loopback"
	}
	return ""
}
