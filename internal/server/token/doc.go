// Package token derives the tokens of a sandbox's data plane.
//
// A token is not stored: it is the HMAC of a sandbox's ID with a secret of the data directory. It is
// therefore the same during the whole life of the sandbox, through every pause and daemon, and cannot be
// made without the secret. The creator of the sandbox gets it. A guest never gets it, because it could
// act as its owner.
//
// The package uses IDs as strings. Callers check whether the sandbox exists and who owns it. A [Minter]
// holds the secret in memory, has nothing to close, and may be used by several goroutines.
package token
