// Package daytona is the backend whose sandboxes are those of Daytona, or of an installation of its open source code.
//
//	s, err := daytona.New(daytona.Config{APIURL: "https://app.daytona.io/api", Domains: []string{"daytona.io"}, Key: key})
//	b, err := remote.New(remote.Config{Service: s, Dir: dir, Guest: guest})
//
// Of the API it uses: create, list, get, last activity and delete of sandboxes; the preview URL of a port; and, of the
// toolbox of a new sandbox, a file upload and one command. The requests are those of the service's OpenAPI document of
// version 0.190. Package remote documents what it does with them.
//
// A sandbox stops after a time without activity and is deleted when it stops. Extend reports activity.
//
// The package must not know other backends. A [Service] holds idle connections only; Close closes them.
package daytona
