// Package secretfile keeps a random secret in a file that only its owner can read.
//
//	secret, err := secretfile.Open("/var/lib/hortus/tokens.key")
//
// The package must not know what a secret is for. It keeps no state: a secret lives as long
// as its file.
package secretfile
