// Package document reads the commands that a Markdown document shows, so that tests can
// run them.
//
// A command stands in an indented block. Either it has a prompt, "$ ", and what follows is
// what it prints; or its first word is a program that documents use (hortus, go, make, git and such). A command may take several lines,
// as in a shell. Calls gives the programs that a command starts with their arguments:
//
//	for _, c := range document.Commands(text) {
//		calls, err := document.Calls(c.Text)
//		...
//	}
//
// It must not know what any program does. It holds nothing.
package document
