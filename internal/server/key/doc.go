// Package key creates, stores and verifies the API keys of a data directory.
//
// A key is "e2b_" and 40 lower-case hexadecimal digits: 160 bits from the system's random generator,
// in the form that E2B's clients expect. It is shown once. Its SHA-256 is stored, and used to find the
// key again.
//
// A slow hash would not add protection. It makes guessing expensive when few guesses are enough, as
// with passwords; among 2^160 keys guessing is hopeless at any price. Its cost would be paid for every
// request, and any client could cause it. There is no salt for the same reason: no two keys are equal,
// there is no table of them, and with a salt a key could not be found by its hash. The time of the
// lookup may reveal a prefix of the hash, which does not reveal the key.
//
// A client with an invalid key learns nothing else: an unknown key, a revoked one and a text without
// the form of a key get the same error. A client with a key that has expired learns that, because it
// has proved to have the key. An expired key stays in the list of those that work until it is revoked,
// so that people see which one needs a successor.
//
// The package knows the owner of a key, not what the owner may do (package access). It holds nothing
// that needs Close; [Keys] may be used by several goroutines.
package key
