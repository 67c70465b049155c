// Package preset expands the names of presets into rules: which hosts npm, pip, go and apt need,
// which host the forges of git, and which the services of models.
//
// A host is configured for its mirrors already: .npmrc, pip.conf, GOPROXY, apt's sources. Package
// preset reads that configuration, so that a sandbox may use the same mirrors, and no others, and
// returns variables of the environment that make the tools in the sandbox use them. What is not
// configured is the tool's documented default, which [Tools] asks it for. A tool with a mirror gets the
// mirror alone.
//
//	c, err := preset.New(preset.Config{Getenv: os.Getenv, Home: home})
//	p, err := c.Expand(ctx, "npm")
//	p.Rules // allow GET and HEAD for npm.example.org, port 4873
//	p.Env   // npm_config_registry=http://npm.example.org:4873/
//
// The presets of package registries allow GET and HEAD, which is all that installing needs. Those whose
// names end in "-publish" allow all methods.
//
// The configuration of tools has credentials. They never leave this package: they are removed
// from URLs, together with queries, and a warning without them says so. A secret in the path of
// a URL cannot be recognized. Nothing is sent or resolved.
//
// A rule has Private if its host is from the operator's configuration: mirrors are often in a
// private network. Hosts of the defaults, and those of Config.Public, never have it. A mirror on the
// loopback of the host is not reachable from a sandbox; it is left out with a warning.
//
// The files are the operator's, but they are read with limits of size and number, and what does
// not parse is left out with a warning. Expand reads them anew each time. A Catalog has no state
// and goroutines share it. The package must not know sandboxes, backends or stores.
package preset
