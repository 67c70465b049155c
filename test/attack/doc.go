// Package attack attacks sandboxes from the inside, and their host from a guest
// that lies. Every claim of docs/security.md has its attack here.
//
// A probe is a system call or a short sequence that an attacker would try; it
// runs as a static program inside the sandbox, as each identity that the sandbox
// offers. Its control runs the same code on the host with that one wall removed
// and must get through, so that a probe that cannot succeed anywhere proves
// nothing and fails.
//
// The package holds tests only. It must not reach into any package's internals:
// it uses the system as its users do.
package attack
