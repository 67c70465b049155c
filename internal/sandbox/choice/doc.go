// Package choice decides what a request for a sandbox gets on this host: which backend,
// with which limits.
//
// "auto" takes the strongest backend that is fit for untrusted code and has the
// capabilities that are needed, and says why. A limit that was requested and that the
// backend cannot enforce here is an error; a default that it cannot is listed with its
// reason. Reports of backends are kept for the life of the process.
//
//	c := choice.New(backends)
//	b, report, why, err := c.Choose(ctx, "auto", api.CapCheckpoint)
//	limits, asked, missing, err := choice.Limits(want, api.DefaultLimits(), report)
//
// The package must not know a concrete backend or the manager.
package choice
