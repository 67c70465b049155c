// Package session is "hortus session": conversations with an agent that keep their files.
//
//	hortus session send KEY "Fix the failing test" --repo .
//
// A command is a struct of flags with a Run method. What a turn does is shown as package task shows tasks. The package must not know
// how a session works.
package session
