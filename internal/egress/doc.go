// Package egress is the contract of what leaves a sandbox: who asks, what is recorded, who may
// be asked.
//
// A guest opens a stream of its tether and asks for a name and a port. Package gateway accepts
// the streams of a sandbox, package policy decides, package dial resolves the name and connects,
// package web reads HTTP requests, and package authority makes the certificates with which TLS is
// terminated. The host decides on every connection; nothing that the guest says is believed
// except the name that it wants to reach.
//
// The packages must not import a backend, the manager, a store or a server.
package egress
