// Package policy decides what may be delivered: to which branches, how much, and which
// files. Its functions are pure: they check names, sizes and modes, and return all refusals.
//
// A policy belongs to the operator. It must never be read from the delivered repository,
// which the agent can change.
//
// A repository can have a policy of its own, which an admin of its account sets. It chooses
// within the operator's: [Policy.Admit] refuses what that does not allow, and [Policy.Within]
// is what both allow, for a delivery.
//
// # Patterns
//
// Patterns are those of bmatcuk/doublestar, over paths with slashes: * and ? match
// within one part, ** as a whole part matches any number of them, "x/**" matches x
// itself too, [a-z] is a class, {a,b} are alternatives, \ takes a meaning away. A
// pattern must match the whole. Forbidden files and protected branches are matched
// without regard to case, and as the file systems of Windows and macOS would read
// the name; exceptions are matched exactly.
//
// The package must not know git, forges' APIs, or where settings come from.
package policy
