// Package relay is the commands that give sandboxes to services that host the harness of an
// agent elsewhere.
//
// "hortus relay claude" is what Claude Code's orchestrator of self-hosted runners needs: it
// writes the orchestrator's spawn-runner hook into a directory and serves it on a socket
// there. The hook, "hortus relay spawn", hands one order over. For each order the relay makes
// one sandbox, starts the runner in it, follows it and destroys the sandbox.
//
//	hortus relay claude --image IMAGE --egress api.anthropic.com HOOKS
//	claude self-hosted-runner orchestrator --hooks-dir HOOKS
//
// An order comes from a program of the same user, but its fields come from elsewhere: they are
// checked and bounded, and none of them becomes a flag. A sandbox is held by the relay's
// process: it ends with the process, however that ends, and at its time to live at the latest.
// Run returns when every sandbox of the relay has been destroyed.
//
// The package must not know tasks, nor what the runner does.
package relay
