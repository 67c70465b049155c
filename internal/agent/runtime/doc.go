// Package runtime is the catalogue of agents that are programs of others: which packages they are, how they are started so
// that they speak the Agent Client Protocol or serve the API of opencode, and how they receive their model. It is data.
//
//	r, err := runtime.Find("opencode")
//	...
//	p, err := r.Choose("anthropic:claude-sonnet-5-5")
//	...
//	l := r.Launch(p, runtime.Location{Root: root, URL: url})
//
// Packages have exact versions and the hashes of a lock file, those that they need too. Each entry switches off what an
// agent in a sandbox must not do: look for updates, report its use, load the configuration that the repository has for it,
// or start a sandbox of its own. An entry is here only if a test completes a task with its real packages.
//
// The values are constant: they have no lives. The package must not know where agents run, or who has the keys.
package runtime
