// Package e2b is the backend whose sandboxes are those of a service with the API of E2B: E2B itself, an installation of
// its open source code, or another Hortus.
//
//	s, err := e2b.New(e2b.Config{APIURL: "https://api.e2b.app", Domain: "e2b.app", Template: "base", Key: key})
//	b, err := remote.New(remote.Config{Service: s, Dir: dir, Guest: guest})
//
// Of the API it uses: create, list, get, timeout and delete of sandboxes; a file upload and one start of a process in a
// new sandbox; and the address of a port, which is private. Package remote documents what it does with them.
//
// The package must not know other backends. A [Service] holds idle connections only; Close closes them.
package e2b
