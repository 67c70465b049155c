// Package plan has the commands of plans: they show the items as a table and a graph, start a plan, follow it, and answer its
// questions.
//
//	type grammar struct {
//		Plan plan.Command `cmd:""`
//	}
//
// A command lives as long as its process; a plan continues without it. The package must not know how plans are run: it speaks to a daemon
// with the client.
package plan
