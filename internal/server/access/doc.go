// Package access is the access control between the servers and the daemon's parts.
//
// The caller is the [hortus.dev/api.Principal] of the context, which a server sets. Without a
// principal nothing is allowed. An admin may do everything, with the data of every account. A user
// may use only the account of the user's key:
//
//   - what a user creates belongs to that account;
//   - what belongs to another account does not exist for the user: the error is KindNotFound, with
//     the text for an unknown ID; lists and unique prefixes of IDs exclude it;
//   - requests about the daemon or its host are KindDenied, and so are requests that use the
//     daemon's files or the operator's credentials;
//   - sandboxes are created through package quota, which has the ceilings and rates of the key.
//
// Each type wraps one part of the daemon and has its methods, each written explicitly, so that a
// new method of a part is not available without a check. The wrapped interfaces are declared here.
// The package must not know a server, a store or the wiring. Its types hold no goroutine and need no
// Close.
//
// # Reasons
//
// Keys of users have ceilings and rates by default, several times what a client reaches; in a
// stored key zero means no ceiling. Rates are for keys and not for addresses, because many
// users share one address.
package access
