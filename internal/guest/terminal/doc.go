// Package terminal opens pseudo-terminals and sets their size.
//
//	master, slave, err := terminal.Open()
//
// The caller owns both descriptors and closes them. The package must not depend on commands:
// both the guest and the program sudo use it.
package terminal
