// Package token makes the tokens of a sandbox's data plane.
//
// A token is derived, not stored: the HMAC of a sandbox's id under a secret of
// the data directory. It is therefore the same for as long as the sandbox lives,
// through every pause and every daemon, and nobody can make one who does not have
// the secret. It is given to anyone who made the sandbox, and never to a guest: a
// guest that knew it could act as its owner.
//
// The package knows ids as strings; whether such a sandbox is there, and whose it
// is, is for others to say. A [Minter] holds the secret in memory, has nothing to
// close, and may be used by many goroutines.
package token
