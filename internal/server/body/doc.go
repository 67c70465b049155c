// Package body reads JSON request bodies strictly and writes JSON answers, for all servers. It does
// not know what the objects mean, or how an error looks on a server's wire.
//
// A body is untrusted: its size is limited before it is read, it contains exactly one value, and an
// unknown member is an error that names it, because an option that is accepted and ignored is worse
// than one that is refused.
//
// A [Form] is a value without state. Nothing in this package outlives a call.
package body
