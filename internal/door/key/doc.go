// Package key makes, keeps and checks the API keys of a data directory.
//
// A key is "e2b_" and 40 lower-case hexadecimal digits: 160 bits from the system's
// generator, in the form that E2B's clients expect. It is shown once. What is kept
// is its SHA-256, under which it is found again when somebody presents it.
//
// A hash that is slow on purpose would protect nothing here. Such a hash makes
// guessing dear where few guesses suffice, as with passwords; of 2^160 keys none is
// guessed, whatever a guess costs. It would be paid on every request, by us, and
// anybody could have us pay it. For the same reason there is no salt: no two keys
// are the same, nobody has a table of them, and with one a key could not be found by
// its hash. That a lookup in an index tells by its time how far a hash agrees helps
// nobody: what is looked up is the hash, and it does not lead back to the key.
//
// Anyone who presents what is no key learns that alone. A key that never was, one that
// was revoked and a text that has not the form of one are refused in the same words.
//
// The package knows who a key speaks for, not what such a caller may do (package
// access). It holds nothing that needs closing; [Keys] may be used by many
// goroutines.
package key
