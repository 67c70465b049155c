// Package terminal opens pseudo-terminals and sets their size.
//
//	master, slave, err := terminal.Open()
//
// The caller owns both descriptors and closes them. The package knows nothing of commands:
// the guest and the program sudo both use it.
package terminal
