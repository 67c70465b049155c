// Package outside tests sandboxes of agents that run outside of them, with the hortus binary
// and one daemon for all tests.
//
// The protocol of "codex exec-server" is tested with a client of this package, which is
// hostile too. In the soak tier, the unmodified Codex from npm works in sandboxes of every
// isolation, and the unmodified orchestrator of Claude Code spawns runners by the hook of
// hortus relay, with a control plane of this package.
//
// The packages are not in the tree: package-lock.json pins their versions and checksums.
// HORTUS_OUTSIDE names a directory in which "npm ci" was run with it. If it is not set,
// hortus-outside in the user's cache is used. If there is none, or node is missing, these
// tests are skipped with the reason.
package outside
