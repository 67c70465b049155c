// Package body reads the JSON of requests, strictly, and writes that of answers. It is
// what doors have in common that take JSON; what their objects mean, and how an error
// looks on their wire, it does not know.
//
// A body is a client's word: it is bounded before it is read, it holds one value, and a
// member that nobody asked for is an error that names it, since an option that is taken
// and ignored is worse than one that is refused.
//
// A [Form] is a value without a state of its own. Nothing here lives longer than a call.
package body
