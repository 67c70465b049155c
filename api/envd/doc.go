// Package envd is the wire protocol between a host and the guest in a sandbox,
// and a client for it.
//
// The protocol is that of E2B's envd: the Connect services process.Process and
// filesystem.Filesystem (JSON or protobuf bodies over HTTP/1.1), plain HTTP
// bodies for files, and /health, /metrics and /envs. Message shapes and field
// numbers follow E2B's published definitions; the code is our own. What envd
// lacks is a versioned extension, hortus.v1, that clients of plain envd never
// see: it is requested by request headers and adds fields that others ignore.
//
// A struct is a message if its fields have a tag such as proto:"1" or proto:"2,oneof", with
// the number of the field. Package generate writes proto_gen.go from these tags.
//
// Everything that comes from the other side is hostile: frames, strings, lists
// and numbers are bounded while they are read, not after.
//
// The package imports the standard library only. It must not know a sandbox's
// manager or a backend; the same [Client] serves a daemon (over a tether) and a
// public SDK (through a daemon's proxy).
package envd

//go:generate go run ./generate
