// Package document extracts the commands from a Markdown document, so that tests can run
// them.
//
// A command is in an indented block. Either it has the prompt "$ " and its output follows,
// or its first word is a program that documents use (hortus, go, make, git and others). A
// command may have several lines, as in a shell. Calls returns the programs that a command
// starts, with their arguments:
//
//	for _, c := range document.Commands(text) {
//		calls, err := document.Calls(c.Text)
//		...
//	}
//
// Its tests check what documents say of the tree: that links lead somewhere, that each
// decision has a status and is listed, and that each row of docs/security-claims.md names
// tests that exist.
//
// The package must not depend on what programs do. It has no state.
package document
