// Package attack attacks sandboxes from the inside, and their host from a malicious
// guest. Every claim of docs/security-claims.md has a test here.
//
// A probe is a system call or a short sequence that an attacker would try. It runs as a
// static program inside the sandbox, as each identity of the sandbox. Its control runs the
// same code on the host without the protection under test, and must succeed: otherwise the
// test fails, because a probe that cannot succeed anywhere proves nothing.
//
// The package has only tests. It must not use any package's internals: it uses the
// system as its users do.
package attack
