// Package access stands between the doors and what they lead to. It says who a
// caller is, and lets everybody do what is theirs to do.
//
// A caller is the [hortus.dev/api.Principal] of the context; a door puts it there,
// and nothing else is asked. Without one nothing is allowed. An admin may do
// everything, to what is anybody's. A user may do what touches the account of the
// user's key alone:
//
//   - what is made belongs to that account;
//   - what belongs to another does not exist: the error is KindNotFound, in the words
//     for an id that never was; lists and unique beginnings of ids leave it out;
//   - what is about the daemon or its host is KindDenied, and so is what reaches its
//     files or speaks with its operator's credentials;
//   - what goes over a ceiling of the key is KindExhausted and names the ceiling.
//
// Each type wraps one part of the daemon and has its methods, every one written out:
// a part that learns something new does not pass it on unguarded. The wrapped
// interfaces are declared here; the package must not know a door, a store or the
// wiring. Its types hold no goroutine and nothing that needs closing.
package access
