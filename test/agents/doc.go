// Package agents tests what tasks and sessions do in the sandboxes of a whole daemon: agents, their
// candidates, copies and sub-agents, and conversations.
//
// Daemons are those of package world. A model is a crew: each agent follows a script, and a test
// says how many must have asked before one of them gets an answer, so that no test waits for a time to
// have several at work. The package has only tests.
package agents
