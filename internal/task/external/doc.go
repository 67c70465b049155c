// Package external has agents of others work on repositories: programs in the sandbox of a task that speak the Agent Client
// Protocol, or are a server with the API of opencode.
//
//	agents := external.New(external.Config{Setup: setup, Layers: sandboxes, Secret: secrets.Lookup})
//	runner := repo.New(repo.Config{Runtimes: agents})
//
// The catalogue of package runtime says which agents there are. The packages of one are installed in a sandbox that can
// connect to their registry and nothing else, as a setup: the result is a layer, found again by later tasks of the account.
// It lies below the checkout, in a directory of .git, which no change of a workspace is read from.
//
// The agent's sandbox can connect to what the task allows, and to the server of its model. The key is a placeholder there:
// the host puts the secret into the requests, within its budget.
//
// A round starts the program anew, in the sandbox of the round, and continues the session of the round before: what the
// agent remembers is in its home directory, which is in the workspace too. A server stays as long as its sandbox does, so
// later rounds and turns in the same sandbox go to the same server: a note in the sandbox says where it is.
//
// # Trust
//
// The program, its messages and what it reports of itself are untrusted. What it says becomes events and a transcript, within
// bounds. It decides nothing: changes are read from the workspace, and the gate judges them.
//
// # Lives
//
// [Agents] is shared and holds nothing of a task. A worker lives as long as its task; a program on standard streams ends
// before Run returns, and a server with its sandbox.
//
// The package must not know how sandboxes isolate, or how a secret gets into a request.
//
// # Reasons
//
// A lost sandbox is replaced and the agent started again in it, unless a limit ended the
// sandbox. Its session is in the workspace, and the message of the turn is said again, because
// its file may lack it. Agents report calls as completed that a cancellation ended; these are
// listed as not done. The program is mounted read-only, since code of the repository could
// change it before the next round.
package external
