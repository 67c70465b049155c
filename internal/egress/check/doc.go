// Package check attacks the outgoing connections of sandboxes: it is a table of the ways by
// which programs have left sandboxes, and the code that tries each of them.
//
//	servers, err := check.NewServers(false)
//	...
//	defer servers.Close()
//	report, err := check.Run(ctx, check.Config{Client: c, Servers: servers, Isolation: "container", Probe: exe})
//	for _, row := range report.Rows { fmt.Println(row.ID, row.Result, row.Reason) }
//
// Tests and "hortus doctor --egress" run the same code against a daemon, through package client.
// [Servers] are real servers on the host: HTTP, TLS, echo, datagrams, unix sockets. They record
// everything that they get. Each attack carries a random token, and has succeeded if a server got
// the token, or if the program in the sandbox got an answer that only a server could give. Each
// attack has a control, run after it: the same probe to a thing that is allowed or reachable,
// which must succeed. A row whose control fails was not tested, so that no row holds because nothing
// works.
//
// The program in the sandbox is package probe, a mode of the guest's executable. A host may lack
// python3, and the hortus executable itself has more than 100 MB; the guest is static, embedded in
// every release, and the mode adds 24 kB to it. All attacks are made on the host (crypto/tls,
// net/http, hand-made DNS messages); the probe only opens sockets, as root of the sandbox if it
// has one.
//
// Rows that need a resolver that lies, or servers that the daemon trusts, are applicable only if
// the daemon was opened with the resolver and the authority of the servers, as tests do. For any
// other daemon the name of the servers is one of /etc/hosts that resolves to this machine.
//
// The rows that depend on state of the sandbox run again after it was paused to disk and resumed,
// in a fork of it, and after the next daemon has adopted it.
//
// The package must not import what it attacks: it knows the daemon as its clients do, and of the
// guest only the addresses and ports in package birth.
package check
