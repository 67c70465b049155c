// Package setup prepares a repository for the work on it: it runs the steps of a commit's setup in a sandbox, and
// seals their result as a layer.
//
//	s := setup.New(setup.Config{Sandboxes: sandboxes, Toolchain: toolchain})
//	runner := repo.New(repo.Config{Setup: s})
//
// The steps are those of package dependency. They run over the checkout, in a sandbox of their own, with the egress
// policy of the setup phase. What they wrote becomes a layer, unless a file of the repository has its place. The
// layer is found by the key of the plan the next time, and lies below the checkout in the sandboxes of the agent and
// of the gate.
//
// # Trust
//
// Only a setup writes such a layer. What an agent or a gate writes over it ends with their own workspace. The account
// is part of the key: what one account installed is never mounted for another. The workspace of a setup is untrusted:
// the host reads it when no process is left, without following a link.
//
// # Lives
//
// A [Preparer] is shared until Close. One call of Prepare is one setup: its sandbox is gone when it returns, and its
// workspace soon after. If several calls need one key at the same time, one installs and the others wait for it.
//
// The package must not know how layers and workspaces are stored, or what the work is.
package setup
