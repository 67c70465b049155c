// Package document has the commands for documents that are kept for tasks.
//
// The package must not know the daemon: it speaks to the client. A command lives for one call.
//
//	type grammar struct {
//		Document document.Command `cmd:"" help:"..."`
//	}
package document
