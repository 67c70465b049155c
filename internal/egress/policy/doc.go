// Package policy decides what a sandbox may connect to. It compiles the ordered rules of an
// api.EgressPolicy, answers questions about names, connections and requests, and reads and
// writes rules as text. Its functions are pure: nothing is resolved, read or connected.
//
//	p, err := policy.ParseAll([]string{"GET,HEAD api.example.org/v1/**", "tcp://db.example.org:5432"})
//	c, err := policy.Compile(p, nil)
//	t, err := policy.NewTarget("API.example.org.", 443)
//	c.Name("api.example.org").Allow         // true: DNS answers
//	c.Connect(t)                            // Allow, Inspect: every request is decided
//	c.Request(t, "POST", "/v1/users").Allow // false
//
// # Rules
//
// Rules are tried in order, and the first one that matches decides. What none matches is denied,
// or a person is asked if the policy has Ask. A ceiling is a second policy that must allow too.
// The stricter answer holds: the class in which the host reads more (web, passthrough, tcp),
// Inspect if one of both has it, and Private only if both have it. So a ceiling that must not
// change classes has the class tcp, and a ceiling for private hosts names them with private.
//
// A name is matched by rules for the name, for a wildcard above it, and for "*"; an address by
// rules for addresses, ranges and "*". "*.example.org" is every name below example.org, at any
// depth, without example.org. A rule for a name never matches an address, and the reverse. Only
// Resolved applies denied addresses to what a name resolves to. Private on a rule for an address
// or a range means that private addresses in it may be connected to.
//
// Without a class, a rule for a name is HTTP and TLS that the host reads. A connection to an
// address has no name to check the identity of a server with: it is carried as TCP if the rule
// has no class, methods or paths.
//
// A rule with methods or paths cannot decide about a connection whose requests are not known
// yet. If it allows, the connection is allowed with Inspect. If it denies, later rules decide
// about the connection, with Inspect.
//
// # Paths
//
// A rule with paths is matched with the decoded path of a request. Servers and proxies disagree
// about paths such as "/a/%2e%2e/b", "/a//b", "/a%2Fb" and "/a;x=1/b", so a request could match
// one rule and be served as another path. Such a request is denied when a rule with paths has to
// be matched with it, whether the rule allows or denies. There is one exception to learn: npm
// asks for "/@scope%2Fname", which rules with paths refuse. A rule whose path is "/**" has no
// condition on the path, so it allows those requests too. Upper and lower case differ, and a
// trailing slash counts: deny "/admin" and "/admin/**".
//
// # Limits of what is decided here
//
// Compile states the limits of a policy, so that a sandbox cannot cost much work per question: a
// name takes less than a microsecond with 1,000 rules. Whether an address is private is the
// knowledge of package dial, which must refuse private addresses unless Verdict.Private: also
// under a policy that allows everything. A header that changes the method of a request is for
// package web to refuse.
//
// The package must not import anything but api. A Policy does not change after Compile, and
// goroutines share it without locks.
package policy
