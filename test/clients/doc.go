// Package clients tests the SDKs in sdk/typescript and sdk/python together with the Go SDK: one
// scenario runs through all three against a daemon, and must print the same lines; a hostile server
// must give each of them an error that says what is wrong; the packages must install and their
// examples run; and what is generated must be current:
//
//	go test ./test/clients -update
//
// writes sdk/typescript/types.d.ts and sdk/python/hortus/types.py from docs/openapi.json, and
// compiles sdk/typescript/dist from its sources. That needs the TypeScript compiler of
// sdk/typescript/package-lock.json in the user's cache, where .ci/run installs it.
//
// The package has tests only.
package clients
