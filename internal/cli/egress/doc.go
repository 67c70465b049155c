// Package egress has the commands for what sandboxes may connect to: it changes and shows the
// policy of a sandbox, lists decisions, and answers connections that wait for a person.
//
// It must not know the daemon: it speaks to the client, and reads rules with package policy. A
// command lives for one call.
//
//	type grammar struct {
//		Egress egress.Command `cmd:"" help:"..."`
//	}
package egress
