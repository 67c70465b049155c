// Package refused shows the outgoing connections of a sandbox that were denied, and how to allow
// them, after a command or a task that failed: they may be why.
//
//	refused.Note(ctx, a, cl, api.EgressFilter{Sandbox: id}, func(target string) string {
//		return "--egress " + target
//	})
//
// It must not know what ran in the sandbox. A note is only a hint: it has no errors.
package refused
